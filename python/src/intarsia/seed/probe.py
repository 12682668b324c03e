"""Times of system calls below a directory of this host, in seconds.

It uses no privileges. Every function returns lists of seconds by the name of what was timed; data
calls are named by kind and size, as in `write_1048576`.
"""

import contextlib
import os
import random
import statistics
import time
from collections.abc import Sequence

from intarsia.seed.watch import Times, Watch

KIB, MIB = 1 << 10, 1 << 20
CALLS = (4 * KIB, 64 * KIB, MIB)
#: Calls of each size in a round; those of 1 MiB are as many as the file has.
FEW = {4 * KIB: 64, 64 * KIB: 32}
#: Files of 1 MiB in a round of which the first bytes are read.
_FIRSTS = 4
#: A device that was idle for so long lets pass again what it lets pass at once.
_PAUSE_S = 0.2
#: How the first call of a kind of reading is named, where nothing can be read ahead of it.
_FIRST = {"cold": "first", "far": "far_first"}
#: What is written, and where to things are read; both are in memory before anything is timed.
BODY = memoryview(os.urandom(MIB))
INTO = bytearray(os.urandom(MIB))


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
        write_all(file, BODY[: 4 * KIB])
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
        read_in_calls(watch, path, call, "cold")
        read_in_calls(watch, path, call, "warm")
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
            write_all(file, piece[:call])
            watch.stop(f"write_{call}")
    finally:
        watch.start()
        os.close(file)
        # Of large files by the byte: a store may send what was written at the close alone.
        watch.stop("close_mib" if call == MIB else "close_data", MIB / size if call == MIB else 1)


def write_all(file: int, piece: memoryview) -> None:
    """Write all of it to a descriptor."""
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


def read_in_calls(watch: Watch, path: str, call: int, kind: str) -> None:
    """Read from the first byte to the last. The first bytes of a cold file have their own name.

    Into the same memory each time, as programs do: new memory would be timed with the file.
    """
    into = [memoryview(INTO)[:call]]
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


def course(directory: str, size: int) -> Times:
    """How reading a file goes that is in no memory: a device may let a burst pass at first.

    `early_mib` is what one MiB took soon after the first, `late_mib` what one took later, and
    `burst_s` by how much sooner all was there than if each had taken that.
    """
    path = os.path.join(directory, "course")
    with open(path, "xb") as file:
        for _ in range(size // MIB):
            file.write(BODY)
    forget(path)
    time.sleep(_PAUSE_S)
    with open(path, "rb", buffering=0) as file:
        began, since_s = time.perf_counter(), []
        while file.readinto(INTO):
            since_s.append(time.perf_counter() - began)
    os.unlink(path)
    return {name: [seconds] for name, seconds in told_course(since_s).items()}


def told_course(since_s: Sequence[float]) -> dict[str, float]:
    """Return what `course` tells of the seconds until each MiB was there."""
    few = max(1, len(since_s) // 16)
    # What is read ahead comes in steps, and the last of them is followed by none.
    late = range(len(since_s) // 4, len(since_s) * 7 // 8)
    line = statistics.linear_regression(late, [since_s[number] for number in late])
    slope = max(line.slope, 1e-9)
    return {
        "early_mib": (since_s[few] - since_s[0]) / few,
        "late_mib": slope,
        # The first MiB ends at 0, so before it is one more.
        "burst_s": slope - line.intercept,
    }


def _read_first(watch: Watch, directory: str, piece: memoryview) -> None:
    """Read files of 1 MiB that were asked to be forgotten: nothing can be read ahead of them."""
    for number in range(_FIRSTS):
        path = os.path.join(directory, f"first-{number}")
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        write_all(file, piece)
        os.close(file)
        forget(path)
        file = os.open(path, os.O_RDONLY)
        watch.start()
        os.readv(file, [INTO])
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
            os.preadv(file, [memoryview(INTO)[:call]], place * call)
            watch.stop(f"anywhere_{call}")
    finally:
        os.close(file)
