"""One attempt at a task, as a worker makes it: hints, the command, and a look at what it made."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import IO

from intarsia.locate import host_of, is_in, locate
from intarsia.run.clock import steady_clock
from intarsia.run.imitate import imitated_s
from intarsia.run.keeper import Ended, Keeper
from intarsia.run.order import Order, Outcome, Result, Stamp
from intarsia.run.patience import patiently
from intarsia.run.temporary import for_store

# No program gives a file this time, so a file that has it was not written to.
_UNTOUCHED_NS = 1_000_000_000
_PIECE = 1 << 20
_IS_DIRECTORY = "is a directory: outputs are files, so name those in it"
# What cannot be read for so long after its host went cannot be read at all.
_RECOVERY_S = 15.0


def attempt(order: Order, keeper: Keeper) -> Outcome:
    """Make one attempt. Never raises for what the task does wrong."""
    clock = steady_clock()
    began_s = clock()
    losses = keeper.losses
    if order.store is not None and not _sees(order):
        # What is made now would lie below the mount, and be in its way.
        return _lost(order, began_s, clock())
    try:
        hint_problem = patiently(lambda: _prepare(order))
        with patiently(lambda: _log_of(order)) as log:
            ended = keeper.run(
                order.command, order.directory, log, order.stdin, order.timeout_s, losses
            )
        made = patiently(lambda: _stamps(order.outputs))
    except OSError as error:
        if keeper.losses > losses or not _sees(order):
            return _lost(order, began_s, clock())
        return Outcome(Result.FAILED, _why(order, error), None, began_s, clock())
    if keeper.losses > losses:
        # Another attempt may be under way by now: its files are not ours to remove.
        return _lost(order, began_s, clock())
    missing = [path for path in order.outputs if path not in made or _is_untouched(made[path])]
    result, detail = _judged(order, ended, missing)
    lost: tuple[str, ...] = ()
    if (result is not Result.DONE or order.store is not None) and not _sees(order):
        return _lost(order, began_s, clock())
    if result in (Result.FAILED, Result.TIMEOUT) and order.checks_inputs:
        lost = tuple(path for path in order.inputs if is_lost(path, order.gone_hosts))
        result = Result.LOST_INPUT if lost else result
    if result is not Result.DONE:
        with contextlib.suppress(OSError):
            _remove(order.outputs)
        made = {}
    return Outcome(
        result,
        detail,
        ended.exit_code,
        began_s,
        clock(),
        ended.cpu_s,
        ended.memory_bytes,
        made,
        lost,
        hint_problem,
        _command_s(order, ended),
    )


def stamp_of(path: str) -> Stamp | None:
    """Return the stamp of a regular file; None where there is none. Raises OSError."""
    try:
        about = os.stat(path)  # noqa: PTH116 - there may be thousands
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Stamp(about.st_size, about.st_mtime_ns) if stat.S_ISREG(about.st_mode) else None


def read_whole(path: str) -> None:
    """Read a file to its end; raises OSError."""
    with open(path, "rb", buffering=0) as file:
        while file.read(_PIECE):
            pass


def read_first(path: str) -> None:
    """Read the first byte of a file, if it has one; raises OSError."""
    with open(path, "rb", buffering=0) as file:
        file.read(1)


def is_lost(
    path: str, gone_hosts: Collection[str] = (), read: Callable[[str], None] = read_whole
) -> bool:
    """Whether a file cannot be read, also when the store had time to recover.

    A file that lies on `gone_hosts` alone gets no such time.
    """
    (found,) = locate([path]).files
    is_hopeless = bool(found.hosts) and set(found.hosts) <= set(gone_hosts)
    try:
        patiently(lambda: read(path), 0.0 if is_hopeless else _RECOVERY_S)
    except OSError:
        return True
    return False


def _stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    return {path: stamp for path in paths if (stamp := stamp_of(path)) is not None}


def _sees(order: Order) -> bool:
    """Whether the directory of the run is still there, on this host, and in its store."""
    return is_in(order.directory, order.store)


def _lost(order: Order, began_s: float, ended_s: float) -> Outcome:
    """The outcome where the directory of the run is gone from this host."""
    result = Result.WORKER_LOST if order.store is None else Result.STORE_LOST
    return Outcome(result, f"{order.directory} is gone from its host", None, began_s, ended_s)


def _prepare(order: Order) -> str:
    """Clear the way for outputs and set their hints; return what was wrong with a hint."""
    _remove(order.outputs)
    for parent in {os.path.dirname(path) for path in order.outputs}:  # noqa: PTH120
        Path(parent).mkdir(parents=True, exist_ok=True)
    problems = []
    hints = order.hints if host_of(order.directory) is not None else {}
    for path, found in hints.items():
        try:
            _make_with(path, for_store(found).items())
        except OSError as error:
            problems.append(f"{path}: {error.strerror}: {dict(found)}")
            _remove([path])
    return "; ".join(problems)


def _make_with(path: str, hints: Iterable[tuple[str, str]]) -> None:
    """Make an empty file with hints, by which it can be told that nobody wrote to it."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    try:
        for name, value in hints:
            os.setxattr(descriptor, f"user.intarsia.{name}", value.encode())
        os.utime(descriptor, ns=(_UNTOUCHED_NS, _UNTOUCHED_NS))
    finally:
        os.close(descriptor)


def _is_untouched(stamp: Stamp) -> bool:
    return stamp == Stamp(0, _UNTOUCHED_NS)


def _log_of(order: Order) -> IO[bytes]:
    path = Path(order.log)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


def _judged(order: Order, ended: Ended, missing: list[str]) -> tuple[Result, str]:
    """How the attempt ended, and what is to be said of it."""
    if ended.stopped and ended.exit_code != 0:
        return Result.STOPPED, "the run was stopped"
    if ended.timed_out:
        return Result.TIMEOUT, f"took longer than {order.timeout_s:g} s"
    if ended.exit_code < 0:
        return Result.FAILED, f"was ended by {_signal_name(-ended.exit_code)}"
    if ended.exit_code > 0:
        by = f" ({_signal_name(ended.exit_code - 128)})" if ended.exit_code > 128 else ""
        return Result.FAILED, f"ended with {ended.exit_code}{by}"
    if missing:
        names = ", ".join(_shown(order, path) for path in missing)
        return Result.INCOMPLETE, f"ended well but did not make {names}"
    return Result.DONE, ""


def _why(order: Order, error: OSError) -> str:
    if isinstance(error, IsADirectoryError) and error.filename in order.outputs:
        return f"{os.path.relpath(error.filename, order.directory)} {_IS_DIRECTORY}"
    return str(error)


def _shown(order: Order, path: str) -> str:
    name = os.path.relpath(path, order.directory)
    return f"{name}, which {_IS_DIRECTORY}" if os.path.isdir(path) else name  # noqa: PTH112


def _command_s(order: Order, ended: Ended) -> float:
    """How long the command took, or what it imitates: a program's start is not part of that."""
    told_s = imitated_s(order.log) if order.imitates else None
    return ended.took_s if told_s is None else told_s


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
