"""Times of system calls below a directory, in seconds. Needs nothing but the standard library.

This text also runs on other hosts: it is sent to a Python there (see `remote`), so that nothing
need be installed. It uses no privileges. Every function returns lists of seconds by the name of
what was timed; data calls are named by kind and size, as in `write_1048576`.

A call during which another program took the processor away tells of that program, not of the store:
it is left out, unless `keeps_disturbed` says that this is what is wanted. `disturbed` has a 1 for
each of these, and a 0 for each of the others.
"""

import contextlib
import os
import random
import resource
import threading
import time

KIB, MIB = 1 << 10, 1 << 20
CALLS = (4 * KIB, 64 * KIB, MIB)
#: Calls of each size in a round; those of 1 MiB are as many as the file has.
FEW = {4 * KIB: 64, 64 * KIB: 32}

Times = dict[str, list[float]]

keeps_disturbed = False


class Watch:
    """Collects times by name."""

    def __init__(self) -> None:
        self._times: Times = {}
        self._disturbed: Times = {}
        self._flags: list[float] = []
        self._switches = 0
        self._began = 0.0

    def start(self) -> None:
        """Begin with a call."""
        self._switches = _switches()
        self._began = time.perf_counter()

    def stop(self, name: str, share: float = 1.0) -> None:
        """End it; `share` of its time is what one thing took."""
        took = (time.perf_counter() - self._began) * share
        is_disturbed = _switches() != self._switches
        self._flags.append(float(is_disturbed))
        kept = self._disturbed if is_disturbed else self._times
        kept.setdefault(name, []).append(took)

    def times(self) -> Times:
        """Return all times; where every call was disturbed, the shortest of them."""
        if keeps_disturbed:
            return joined(self._times, self._disturbed, {"disturbed": self._flags})
        shortest = {name: [min(times)] for name, times in self._disturbed.items()}
        return {**shortest, **self._times, "disturbed": self._flags}


def _switches() -> int:
    """How often other programs took the processor from this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def metadata(directory: str, count: int) -> Times:
    """Make, open, look at, rename, list and remove `count` files of 4 KiB and directories."""
    watch = Watch()
    here = os.path.join(directory, "names")
    watch.start()
    os.mkdir(here)
    watch.stop("mkdir")
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
    for path in paths:
        watch.start()
        os.unlink(path + "r")
        watch.stop("unlink")
    for number in range(max(1, count // 4)):
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
    body = os.urandom(4 * KIB)
    for path in paths:
        watch.start()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        watch.stop("create")
        watch.start()
        _write_all(file, body)
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
    piece = os.urandom(MIB)
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
    if not keep:
        for path in paths.values():
            os.unlink(path)
    return watch.times()


def _write_new(watch: Watch, path: str, size: int, call: int, piece: bytes) -> None:
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
        watch.stop("close_data")


def _write_all(file: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(file, piece) :]


def _write_over(watch: Watch, path: str, size: int, piece: bytes) -> None:
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
    """Read from the first byte to the last."""
    watch.start()
    file = os.open(path, os.O_RDONLY)
    watch.stop(f"open_{kind}")
    try:
        for _ in range(os.fstat(file).st_size // call):
            watch.start()
            os.read(file, call)
            watch.stop(f"{kind}_{call}")
    finally:
        os.close(file)


def _read_anywhere(watch: Watch, path: str, size: int, call: int) -> None:
    """Read at places that nothing foretells, of a file that was asked to be forgotten."""
    forget(path)
    places = random.Random(call).sample(range(size // call), min(FEW[call], size // call))
    file = os.open(path, os.O_RDONLY)
    try:
        for place in places:
            watch.start()
            os.pread(file, call, place * call)
            watch.stop(f"anywhere_{call}")
    finally:
        os.close(file)


def lanes(directory: str, size: int, count: int) -> Times:
    """Write `size` bytes each with `count` threads at once; seconds for a MiB of all of them."""
    piece = os.urandom(MIB)
    gate = threading.Barrier(count + 1)
    failed: list[OSError] = []

    def write(path: str) -> None:
        gate.wait()
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                for _ in range(size // MIB):
                    _write_all(file, piece)
            finally:
                os.close(file)
        except OSError as error:
            failed.append(error)

    paths = [os.path.join(directory, f"lane-{number}") for number in range(count)]
    threads = [threading.Thread(target=write, args=(path,), daemon=True) for path in paths]
    for thread in threads:
        thread.start()
    gate.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if failed:
        raise failed[0]
    return {f"lanes_{count}": [took * MIB / (size * count)]}


def offer(directory: str, count: int) -> None:
    """Make `count` files for `far`."""
    body = os.urandom(4 * KIB)
    for number in range(count):
        with open(os.path.join(directory, f"far-{number}"), "xb") as file:
            file.write(body)


def far(directory: str, count: int) -> Times:
    """What another host sees of files that `data` kept, and of those that `offer` made."""
    watch = Watch()
    for number in range(count):
        path = os.path.join(directory, f"far-{number}")
        watch.start()
        os.stat(path)
        watch.stop("far_stat")
        watch.start()
        file = os.open(path, os.O_RDONLY)
        watch.stop("far_open")
        os.close(file)
    for call in CALLS:
        path = os.path.join(directory, f"data-{call}")
        _read(watch, path, call, "far")
    _read(watch, os.path.join(directory, f"data-{MIB}"), MIB, "again")
    return watch.times()


def joined(*parts: Times) -> Times:
    """Return the times of several parts together."""
    times: Times = {}
    for part in parts:
        for name, seconds in part.items():
            times.setdefault(name, []).extend(seconds)
    return times
