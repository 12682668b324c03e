"""Times of system calls below a directory, in seconds. Needs nothing but the standard library.

This text also runs on other hosts: it is sent to a Python there (see `remote`), so that nothing
need be installed. It uses no privileges. Every function returns lists of seconds by the name of
what was timed; data calls are named by kind and size, as in `write_1048576`.

A call for much of which another program took the processor away tells of that program: it is left
out, unless `keeps_disturbed` is set. `disturbed` has a 1 for each of these, a 0 for each other.
"""

import contextlib
import errno
import functools
import os
import random
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

KIB, MIB = 1 << 10, 1 << 20
CALLS = (4 * KIB, 64 * KIB, MIB)
#: Calls of each size in a round; those of 1 MiB are as many as the file has.
FEW = {4 * KIB: 64, 64 * KIB: 32}
#: Files of 1 MiB in a round of which the first bytes are read.
_FIRSTS = 4
#: Files in a round that this host and another one each make, for where they lie, and their length.
PLACED, PLACED_BYTES = 4, 256 * KIB
DEALT = "dealt"  # the directory of files that are dealt over hosts
#: A file that another host reads, to fill the link, while it looks at others, of which there are so
#: many in a round, dealt over directories: the names of some may be kept on the host that looks.
#: The first of each directory is looked at before: it asks others more often than those after it.
_BUSY, _WHILE_BUSY, _BUSY_DIRECTORIES = "busy", 30, 6
#: A call that asks others crosses a link so often at most, nearly always.
_MOST_CROSSINGS = 8
#: A link that was idle for so long lets pass at once what it lets pass.
_IDLE_S = 0.02
#: How the first call of a kind of reading is named, where nothing can be read ahead of it.
_FIRST = {"cold": "first", "far": "far_first"}
#: What is written, and where to things are read; both are in memory before anything is timed.
_BODY = memoryview(os.urandom(MIB))
_INTO = bytearray(os.urandom(MIB))

Times = dict[str, list[float]]

keeps_disturbed = False
#: A call is disturbed if its thread waited for a processor for such a share of it. A mere switch
#: is none: long calls meet more of these, and to leave them out would leave the short ones.
_DISTURBING = 0.05


class Watch:
    """Collects times by name."""

    def __init__(self) -> None:
        self._times: Times = {}
        self._disturbed: Times = {}
        self._flags: list[float] = []
        self._switches = 0
        self._waited_ns: int | None = None
        self._began = 0.0

    def start(self) -> None:
        """Begin with a call."""
        self._waited_ns = _waited_ns()
        self._switches = _switches()
        self._began = time.perf_counter()

    def stop(self, name: str, share: float = 1.0) -> None:
        """End it; `share` of its time is what one thing took."""
        seconds = time.perf_counter() - self._began
        is_disturbed = _switches() != self._switches and self._is_long(seconds)
        self._flags.append(float(is_disturbed))
        kept = self._disturbed if is_disturbed else self._times
        kept.setdefault(name, []).append(seconds * share)

    def take(self, name: str, seconds: list[float]) -> None:
        """Take in times that were found otherwise."""
        self._times.setdefault(name, []).extend(seconds)

    def _is_long(self, seconds: float) -> bool:
        """Whether the thread waited for a processor for long; so where the kernel does not say."""
        now_ns = _waited_ns()
        if now_ns is None or self._waited_ns is None:
            return True
        return (now_ns - self._waited_ns) / 1e9 > _DISTURBING * seconds

    def times(self) -> Times:
        """Return all times; where every call was disturbed, the shortest of them."""
        if keeps_disturbed:
            return joined(self._times, self._disturbed, {"disturbed": self._flags})
        shortest = {name: [min(times)] for name, times in self._disturbed.items()}
        return {**shortest, **self._times, "disturbed": self._flags}


def _switches() -> int:
    """How often other programs took the processor from this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _waited_ns() -> int | None:
    """How long this thread was ready and had no processor; None if the kernel does not count it."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read(64).split()[1])
    except (OSError, ValueError, IndexError):
        return None


def metadata(directory: str, count: int) -> Times:
    """Make, open, look at, list and rename `count` files of 4 KiB; `removal` removes them later.

    They stay meanwhile: ext4 passes over inodes that were removed in the last minute or so, one by
    one, when it makes a file, so what removes its own files would measure its own making of them.
    """
    watch = Watch()
    here = os.path.join(directory, "names")
    os.mkdir(here)
    paths = [os.path.join(here, f"f{number}") for number in range(count)]
    _make(watch, paths)
    for path in paths:
        watch.start()
        os.stat(path)
        watch.stop("stat")
    _open(watch, paths)
    for _ in range(5):
        watch.start()
        os.listdir(here)
        watch.stop("readdir_entry", 1 / count)
    for path in paths:
        watch.start()
        os.rename(path, path + "r")
        watch.stop("rename")
    return watch.times()


def removal(directory: str) -> Times:
    """Remove what `metadata` left, make files once more, and make and remove directories."""
    watch = Watch()
    here = os.path.join(directory, "names")
    names = os.listdir(here)
    for name in names:
        watch.start()
        os.unlink(os.path.join(here, name))
        watch.stop("unlink")
    few = max(1, len(names) // 4)
    for number in range(few):
        path = os.path.join(here, f"again{number}")
        watch.start()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        watch.stop("create_after")
        os.close(file)
        os.unlink(path)
    for number in range(few):
        sub = os.path.join(here, f"d{number}")
        watch.start()
        os.mkdir(sub)
        watch.stop("mkdir")
        watch.start()
        os.rmdir(sub)
        watch.stop("rmdir")
    os.rmdir(here)
    return watch.times()


def _make(watch: Watch, paths: list[str]) -> None:
    for path in paths:
        watch.start()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        watch.stop("create")
        watch.start()
        _write_all(file, _BODY[: 4 * KIB])
        watch.stop("first_write")
        watch.start()
        os.close(file)
        watch.stop("close_write")


def _open(watch: Watch, paths: list[str]) -> None:
    for path in paths:
        watch.start()
        file = os.open(path, os.O_RDONLY)
        watch.stop("open")
        watch.start()
        os.close(file)
        watch.stop("close_read")


def data(directory: str, size: int, keep: bool = False) -> Times:
    """Write new files, over them, and read them: cold and warm, one after another and anywhere.

    `size` bytes, a multiple of 1 MiB, of the largest file. With `keep` the files stay.
    """
    watch = Watch()
    piece = memoryview(os.urandom(MIB))
    paths = {call: os.path.join(directory, f"data-{call}") for call in CALLS}
    for call, path in paths.items():
        _write_new(watch, path, size if call == MIB else call * FEW[call], call, piece)
    _write_over(watch, paths[MIB], size, piece)
    for call, path in paths.items():
        forget(path)
        _read(watch, path, call, "cold")
        _read(watch, path, call, "warm")
    for call in CALLS[:2]:
        _read_anywhere(watch, paths[MIB], size, call)
    _read_first(watch, directory, piece)
    if not keep:
        for path in paths.values():
            os.unlink(path)
    return watch.times()


def _write_new(watch: Watch, path: str, size: int, call: int, piece: memoryview) -> None:
    watch.start()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    watch.stop("create_data")
    try:
        for _ in range(size // call):
            watch.start()
            _write_all(file, piece[:call])
            watch.stop(f"write_{call}")
    finally:
        watch.start()
        os.close(file)
        # Of large files by the byte: a store may send what was written at the close alone.
        watch.stop("close_mib" if call == MIB else "close_data", MIB / size if call == MIB else 1)


def _write_all(file: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(file, piece) :]


def _write_over(watch: Watch, path: str, size: int, piece: memoryview) -> None:
    """Write over what is there, in an order of chance, and have all of it on the medium."""
    file = os.open(path, os.O_WRONLY)
    try:
        offsets = list(range(0, size, MIB))
        random.Random(size).shuffle(offsets)
        for offset in offsets:
            watch.start()
            os.pwrite(file, piece, offset)
            watch.stop(f"over_{MIB}")
        watch.start()
        os.fsync(file)
        watch.stop("fsync_mib", MIB / size)
    finally:
        os.close(file)


def forget(path: str) -> None:
    """Ask the kernel to forget the pages of a file; it may decline, which the times then show."""
    file = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def _read(watch: Watch, path: str, call: int, kind: str) -> None:
    """Read from the first byte to the last. The first bytes of a cold file have their own name.

    Into the same memory each time, as programs do: new memory would be timed with the file.
    """
    into = [memoryview(_INTO)[:call]]
    watch.start()
    file = os.open(path, os.O_RDONLY)
    watch.stop(f"open_{kind}")
    try:
        for number in range(os.fstat(file).st_size // call):
            watch.start()
            os.readv(file, into)
            watch.stop(f"{_FIRST.get(kind, kind) if number == 0 else kind}_{call}")
    finally:
        os.close(file)


def _read_first(watch: Watch, directory: str, piece: memoryview) -> None:
    """Read files of 1 MiB that were asked to be forgotten: nothing can be read ahead of them."""
    for number in range(_FIRSTS):
        path = os.path.join(directory, f"first-{number}")
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        _write_all(file, piece)
        os.close(file)
        forget(path)
        file = os.open(path, os.O_RDONLY)
        watch.start()
        os.readv(file, [_INTO])
        watch.stop(f"first_{MIB}")
        os.close(file)
        os.unlink(path)


def _read_anywhere(watch: Watch, path: str, size: int, call: int) -> None:
    """Read at places that nothing foretells, of a file that was asked to be forgotten."""
    forget(path)
    places = random.Random(call).sample(range(size // call), min(FEW[call], size // call))
    file = os.open(path, os.O_RDONLY)
    try:
        for place in places:
            watch.start()
            os.preadv(file, [memoryview(_INTO)[:call]], place * call)
            watch.stop(f"anywhere_{call}")
    finally:
        os.close(file)


def together(directory: str, size: int, count: int) -> Times:
    """The same work by `count` processes at once; seconds for a MiB, or a file, of all of them.

    `size` bytes each are written, read as nobody keeps them, and read as memory keeps them; each
    also makes, opens and closes files, which stay (see `metadata`). Processes, as tasks are:
    threads of Python would wait for each other. Each kind is named with the number of processes, as
    in `write_by_2`.
    """
    units = size * count / MIB
    files = FEW[4 * KIB] * count
    paths = [os.path.join(directory, f"lane-{number}-of-{count}") for number in range(count)]
    for path in paths:
        os.mkdir(path)
    try:
        took = {
            "names": _gated(_names, paths, size) / files,
            "write": _gated(_write_lane, paths, size) / units,
        }
        for path in paths:
            forget(os.path.join(path, "data"))
        took["read"] = _gated(_read_lane, paths, size) / units
        took["copy"] = _gated(_read_lane, paths, size, twice=True) / units
    finally:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(path, "data"))
    return {f"{kind}_by_{count}": [seconds] for kind, seconds in took.items()}


def _names(path: str, _size: int) -> None:
    for number in range(FEW[4 * KIB]):
        name = os.path.join(path, f"f{number}")
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        _write_all(file, _BODY[: 4 * KIB])
        os.close(file)
        os.close(os.open(name, os.O_RDONLY))


def _write_lane(path: str, size: int) -> None:
    file = os.open(os.path.join(path, "data"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    for _ in range(size // MIB):
        _write_all(file, _BODY)
    os.close(file)


def _read_lane(path: str, _size: int) -> None:
    file = os.open(os.path.join(path, "data"), os.O_RDONLY)
    while os.readv(file, [_INTO]):
        pass
    os.close(file)


def _gated(
    work: Callable[[str, int], None], paths: list[str], size: int, twice: bool = False
) -> float:
    """Begin `work` in a process for each path at the same instant; seconds until the last ends.

    With `twice` each does it once before, which is not counted.
    """
    gate, opener = os.pipe()
    ended, ends = os.pipe()
    children = []
    for path in paths:
        child = os.fork()
        if child == 0:
            _work_behind(gate, opener, ends, functools.partial(work, path, size), twice)
        children.append(child)
    os.close(gate)
    os.close(ends)
    told = b""
    try:
        while told.count(b"here ") < len(children) and (more := os.read(ended, 1 << 12)):
            told += more
        os.close(opener)
        while more := os.read(ended, 1 << 12):
            told += more
    finally:
        os.close(ended)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    failed = [code for code in codes if code]
    if failed:
        number = failed[0] if failed[0] > 0 else errno.EIO
        raise OSError(number, os.strerror(number))
    times = [float(one) for one in told.split() if one != b"here"]
    return max(times) - min(times)


def _work_behind(
    gate: int, opener: int, ends: int, work: Callable[[], None], twice: bool
) -> NoReturn:
    """What a process does: it ends here, with the number of the error if there is one."""
    code = errno.EIO
    try:
        os.close(opener)
        _INTO[:] = _BODY  # a copy of its own, before anything is timed
        if twice:
            work()
        os.write(ends, b"here ")
        os.read(gate, 1)  # the parent closes its end, also by dying
        began = time.perf_counter()
        work()
        os.write(ends, f"{began!r} {time.perf_counter()!r} ".encode())
        code = 0
    except OSError as error:
        code = error.errno or errno.EIO
    finally:
        os._exit(code)


def offer(directory: str, count: int, size: int) -> Times:
    """Make `count` files for `far`, one of `size`, and others that are read in whole."""
    watch = Watch()
    names = [f"far-{number}" for number in range(count)]
    for number in range(_BUSY_DIRECTORIES):
        os.mkdir(os.path.join(directory, f"while-busy-{number}"))
    for name in names + [_while_busy(number) for number in range(_WHILE_BUSY)]:
        with open(os.path.join(directory, name), "xb") as file:
            file.write(_BODY[: 4 * KIB])
    with open(os.path.join(directory, _BUSY), "xb") as file:
        for _ in range(size // MIB):
            file.write(_BODY)
    for number in range(PLACED):
        path = os.path.join(directory, f"placed-{number}")
        _write_whole(watch, path, "placed_write")
        forget(path)
        _read_whole(watch, path, "placed_read")
    _deal(watch, os.path.join(directory, DEALT))
    return watch.times()


def _deal(watch: Watch, directory: str) -> None:
    """Make a file that is dealt over hosts by chunks, if the store can do that and says so."""
    os.mkdir(directory)
    path = os.path.join(directory, "file")
    try:
        os.setxattr(directory, "user.intarsia.place", b"stripe:2")
        os.setxattr(directory, "user.intarsia.chunk", b"64KiB")
        _write_whole(watch, path, "dealt_write")
        # Stores of others keep any attribute, but do not say where a file lies.
        is_dealt = b"," in os.getxattr(path, "user.intarsia.layout")
    except OSError:
        is_dealt = False
    if not is_dealt and os.path.exists(path):
        os.unlink(path)


def back(directory: str) -> Times:
    """Read what `far` wrote on the other host."""
    watch = Watch()
    for number in range(PLACED):
        _read_whole(watch, os.path.join(directory, f"back-{number}"), "placed_back")
    return watch.times()


def _write_whole(watch: Watch, path: str, name: str) -> None:
    """Write a new file until it is closed."""
    watch.start()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    _write_all(file, _BODY[:PLACED_BYTES])
    os.close(file)
    watch.stop(name)


def _read_whole(watch: Watch, path: str, name: str) -> None:
    watch.start()
    file = os.open(path, os.O_RDONLY)
    while os.readv(file, [_INTO]):
        pass
    os.close(file)
    watch.stop(name)


def far(directory: str, count: int) -> Times:
    """What another host sees of what `data` and `offer` made; it also writes what `back` reads."""
    watch = Watch()
    for number in range(count):
        _look(watch, os.path.join(directory, f"far-{number}"), "far_")
    if count:
        _look_while_busy(watch, directory)
    for call in CALLS:
        path = os.path.join(directory, f"data-{call}")
        _read(watch, path, call, "far")
    _read(watch, os.path.join(directory, f"data-{MIB}"), MIB, "again")
    for number in range(PLACED if count else 0):
        time.sleep(_IDLE_S)
        _read_whole(watch, os.path.join(directory, f"placed-{number}"), "placed_far")
        _write_whole(watch, os.path.join(directory, f"back-{number}"), "placed_far_write")
    dealt = os.path.join(directory, DEALT, "file")
    for name in ("dealt_far", "dealt_again") if os.path.exists(dealt) else ():
        time.sleep(_IDLE_S)
        _read_whole(watch, dealt, name)
    return watch.times()


def _look(watch: Watch, path: str, kind: str = "", renames: bool = True) -> None:
    """Look at a file, open it, and rename it, which every store has to tell to others at once."""
    watch.start()
    os.stat(path)
    watch.stop(f"{kind}stat")
    watch.start()
    file = os.open(path, os.O_RDONLY)
    watch.stop(f"{kind}open")
    os.close(file)
    if renames:
        watch.start()
        os.rename(path, path + "r")
        watch.stop(f"{kind}rename")


def _while_busy(number: int) -> str:
    """The path of a file that is looked at while the link is full."""
    return f"while-busy-{number % _BUSY_DIRECTORIES}/{number}"


def one_wait(idle: Mapping[str, float], busy: Times) -> list[float]:
    """How long calls waited for a full link, of those that crossed it once.

    A call crosses it as often as it asks other hosts in turn, which nobody tells: once, several
    times, or never where what it asks for is here. So of waits that many had the shortest counts.
    `idle` and `busy` have the seconds of calls by their names, on an idle link and on a full one.
    """
    if "rename" not in busy:
        return []
    waits = [seconds - idle[name] for name, times in busy.items() for seconds in times]
    typical = statistics.median(busy["rename"]) - idle["rename"]
    least = max(typical / _MOST_CROSSINGS, 2 * max(idle[name] for name in busy))
    waits = sorted(wait for wait in waits if wait >= least)
    if not waits:
        return [0.0]
    # Single short ones are of a link that was not full yet.
    alike = [[wait for wait in waits if least <= wait <= 1.3 * least] for least in waits]
    often = max(2, len(waits) / 5)
    return next((some for some in alike if len(some) >= often), waits)


def _look_while_busy(watch: Watch, directory: str) -> None:
    """Look at files while a process of this host reads a large one, which fills the link."""
    idle = Watch()
    for number in range(_BUSY_DIRECTORIES):
        _look(idle, os.path.join(directory, _while_busy(number)))
    said, says = os.pipe()
    child = os.fork()
    if child == 0:
        _read_and_say(os.path.join(directory, _BUSY), said, says)
    os.close(says)
    try:
        os.read(said, 1)  # the first bytes are here, or it has failed
        os.set_blocking(said, False)
        busy: Times = {}
        for number in range(_BUSY_DIRECTORIES, _WHILE_BUSY):
            during = Watch()
            _look(during, os.path.join(directory, _while_busy(number)), renames=number % 2 == 0)
            with contextlib.suppress(BlockingIOError):
                os.read(said, 1)
                break  # all has come: this one was looked at on a link that may be idle
            busy = joined(busy, during.times())
        busy.pop("disturbed", None)
        means = {name: statistics.mean(times) for name, times in idle.times().items()}
        if waits := one_wait(means, busy):
            watch.take("busy_wait", [statistics.median(waits)])
    finally:
        os.close(said)
        os.waitpid(child, 0)


def _read_and_say(path: str, said: int, says: int) -> NoReturn:
    """What the process does: it says so when the first bytes have come, and ends when all have."""
    try:
        os.close(said)
        file = os.open(path, os.O_RDONLY)
        os.readv(file, [memoryview(_INTO)[: 4 * KIB]])
        os.write(says, b".")
        while os.readv(file, [_INTO]):
            pass
    finally:
        os._exit(0)


def joined(*parts: Times) -> Times:
    """Return the times of several parts together."""
    times: Times = {}
    for part in parts:
        for name, seconds in part.items():
            times.setdefault(name, []).extend(seconds)
    return times
