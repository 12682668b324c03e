"""What has been done, on a disk: one line of JSON for each thing that happened.

A line is on stable storage before anything is built on it. What a crash leaves of a last line is
cut off when the journal is opened again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from intarsia.run.lineage import Made
from intarsia.run.order import Outcome, Stamp
from intarsia.run.patience import AWAY, patiently

_FORMAT = {"format": "intarsia-run-journal", "version": 1}


class JournalError(RuntimeError):
    """A journal cannot be used; the text says why."""


class JournalBusyError(JournalError):
    """Another run uses it now."""


@dataclass(frozen=True, slots=True)
class Past:
    """Where and when a task of an earlier run was done; seconds since 1970."""

    host: str
    began_s: float
    ended_s: float
    cpu_s: float


class Journal:
    """The journal of one run directory, held by one process at a time."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        """Open or begin the journal at `path`; `fresh` forgets what is in it.

        Raises JournalBusyError where another run holds it, JournalError for a file that is no
        journal, OSError.
        """
        self._path = path
        self._descriptor = _opened(path)
        self._size_bytes = 0
        try:
            self._lock()
            known = _Known() if fresh else self._read()
            self.made, self.past = known.made, known.past
            if fresh:
                os.ftruncate(self._descriptor, 0)
            if os.fstat(self._descriptor).st_size == 0:
                patiently(lambda: self._append(_FORMAT))
            self._size_bytes = os.fstat(self._descriptor).st_size
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others use it; what is in it is on stable storage, also where its store is gone."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    @property
    def is_gone(self) -> bool:
        """Whether somebody has removed it, so that the next run will not find it."""
        try:
            return os.fstat(self._descriptor).st_nlink == 0
        except OSError:  # nobody can tell while its store is gone
            return False

    def done(self, task: str, lineage: str, host: str, outcome: Outcome) -> None:
        """Record that a task is done; it is on stable storage when this returns.

        Raises OSError, and JournalError where it cannot be the same journal any more.
        """
        outputs = {
            path: [stamp.size_bytes, stamp.mtime_ns] for path, stamp in outcome.outputs.items()
        }
        self._append(
            {
                "done": task,
                "lineage": lineage,
                "host": host,
                "began_s": outcome.began_s,
                "ended_s": outcome.ended_s,
                "cpu_s": outcome.cpu_s,
                "outputs": outputs,
            }
        )

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalBusyError(f"another run uses {self._path.parent}; wait for it") from None

    def reopen(self) -> None:
        """Open it anew in a store that was brought up again, and hold it there too.

        Raises OSError, JournalBusyError where another run was quicker, and JournalError where it
        is no longer what it was.
        """
        new = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        old, self._descriptor = self._descriptor, new
        with contextlib.suppress(OSError):
            os.close(old)
        self._lock()
        if os.fstat(new).st_size < self._size_bytes:
            raise JournalError(
                f"{self._path} has lost what was written to it; begin anew with --fresh"
            )

    def _append(self, record: Mapping[str, Any]) -> None:
        """Append a line; what a failed attempt at it has left is cut off first. Raises OSError."""
        line = json.dumps(record).encode() + b"\n"
        try:
            try:
                self._write(line)
            except OSError as error:
                if error.errno not in AWAY:
                    raise
                self.reopen()
                self._write(line)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def _write(self, line: bytes) -> None:
        at = min(self._size_bytes, os.lseek(self._descriptor, 0, os.SEEK_END))
        os.ftruncate(self._descriptor, at)
        if os.write(self._descriptor, line) < len(line):
            raise OSError(errno.EIO, "a line was cut short", str(self._path))
        os.fdatasync(self._descriptor)
        self._size_bytes = at + len(line)

    def _read(self) -> _Known:
        """Read what was done, and cut off what a crash has left of a line."""
        content = self._path.read_bytes()
        whole = _whole(content)
        known = _known(self._path, content)
        if len(whole) < len(content):
            os.ftruncate(self._descriptor, len(whole))
        return known


@dataclass(frozen=True, slots=True)
class _Known:
    """What a journal says of tasks that are done."""

    made: dict[str, Made] = field(default_factory=dict)
    past: dict[str, Past] = field(default_factory=dict)


def made_before(path: Path) -> dict[str, Made]:
    """Return what a journal says is done, and leave it as it is; nothing where there is none.

    Raises JournalError for a file that is no journal, OSError.
    """
    try:
        return _known(path, path.read_bytes()).made
    except FileNotFoundError:
        return {}


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise JournalError(
            f"{path.parent} cannot be the run directory: {error.strerror}: {error.filename}; "
            "name another one by --run-dir"
        ) from None


def _whole(content: bytes) -> bytes:
    """Return the lines that are whole: a crash may have left a part of the last one."""
    return content[: content.rfind(b"\n") + 1]


def _known(path: Path, content: bytes) -> _Known:
    whole = _whole(content)
    if content and not whole and not json.dumps(_FORMAT).encode().startswith(content):
        raise JournalError(f"{path} is no journal of a run")
    known = _Known()
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            record = json.loads(line)
            if number > 1:
                known.made[record["done"]] = _made(record)
                known.past[record["done"]] = _past(record)
                continue
        except (ValueError, LookupError, TypeError, AttributeError):
            raise JournalError(
                f"{path}, line {number}: is damaged; begin anew with --fresh"
            ) from None
        if record != _FORMAT:
            raise JournalError(f"{path} is no journal that this program reads")
    return known


def _made(record: Mapping[str, Any]) -> Made:
    outputs = {path: Stamp(*stamp) for path, stamp in record["outputs"].items()}
    return Made(record["lineage"], outputs)


def _past(record: Mapping[str, Any]) -> Past:
    return Past(record["host"], record["began_s"], record["ended_s"], record["cpu_s"])
