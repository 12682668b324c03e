"""Work of several processes at once, begun at the same instant."""

import contextlib
import errno
import functools
import os
import time
from collections.abc import Callable
from typing import NoReturn

from intarsia.seed.probe import BODY, FEW, INTO, KIB, MIB, forget, write_all
from intarsia.seed.watch import Times


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
        write_all(file, BODY[: 4 * KIB])
        os.close(file)
        os.close(os.open(name, os.O_RDONLY))


def _write_lane(path: str, size: int) -> None:
    file = os.open(os.path.join(path, "data"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    for _ in range(size // MIB):
        write_all(file, BODY)
    os.close(file)


def _read_lane(path: str, _size: int) -> None:
    file = os.open(os.path.join(path, "data"), os.O_RDONLY)
    while os.readv(file, [INTO]):
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
        INTO[:] = BODY  # a copy of its own, before anything is timed
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
