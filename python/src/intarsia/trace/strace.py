"""Workloads from logs of strace: a task is a process that reads or writes below a directory."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from intarsia.trace.calls import Call, calls, descriptor, text_of
from intarsia.trace.errors import TraceError
from intarsia.trace.workload import Operation, Task, Workload, with_one_writer_each, with_pauses

#: A process in one of these waits for others, and does not compute.
_WAITS = frozenset(
    ("wait4", "waitid", "waitpid", "poll", "ppoll", "select", "pselect6", "epoll_wait")
) | {"epoll_pwait", "pause", "rt_sigtimedwait", "futex"}
_READS = frozenset(("read", "readv"))
_WRITES = frozenset(("write", "writev"))
_READS_AT = frozenset(("pread64", "preadv", "preadv2"))
_WRITES_AT = frozenset(("pwrite64", "pwritev", "pwritev2"))
_FORKS = frozenset(("clone", "clone3", "fork", "vfork"))


@dataclass(slots=True)
class _Open:
    """An open file: its path, where it is read and written next, and whether at its end."""

    path: str
    position: int = 0
    appends: bool = False


@dataclass(slots=True)
class _Process:
    """What a process has open, where it is, and what it did."""

    number: int
    program: str
    directory: str
    files: dict[int, _Open]
    began_s: float
    ended_s: float
    operations: list[Operation] = field(default_factory=list)
    waits: dict[float, float] = field(default_factory=dict)


def read_strace(source: str, text: str, below: str, *, whole: bool = False) -> Workload:
    """Read a log; `below` is the directory whose files count, as an absolute path.

    With `whole` all processes of the log are one task. Raises TraceError.
    """
    log = _read(source, text, below)
    processes = [one for one in log.processes if one.operations]
    if not processes:
        raise TraceError(
            source, "", f"no process reads or writes a file below {below}", "say where with --below"
        )
    made = Workload(PurePosixPath(source).name, _tasks(processes, whole=whole))
    made.warnings += log.warnings
    return with_one_writer_each(made)


def read_requests(source: str, text: str, below: str) -> list[Operation]:
    """Read every read and write of files below `below`, an absolute path, in order of time.

    Raises TraceError for what is no log of strace.
    """
    log = _read(source, text, below)
    found = [
        operation
        for process in log.processes
        for operation in process.operations
        if operation.kind in ("read", "write")
    ]
    return sorted(found, key=lambda operation: operation.at_s or 0.0)


def _read(source: str, text: str, below: str) -> _Log:
    log = _Log(source, below)
    found = list(calls(source, text, log.warnings))
    log.forked = _parents(found)
    for call in found:
        log.take(call)
    return log


def _tasks(processes: list[_Process], *, whole: bool) -> list[Task]:
    """Make tasks, in the order in which they began; names are programs with numbers."""
    if whole:
        processes = [_joined(processes)]
    counts: dict[str, int] = defaultdict(int)
    tasks = []
    for one in sorted(processes, key=lambda one: one.began_s):
        counts[one.program] += 1
        operations = sorted(one.operations, key=lambda operation: operation.at_s or 0.0)
        tasks.append(
            Task(
                f"{one.program}-{counts[one.program]}",
                one.program,
                with_pauses(operations, one.began_s, one.ended_s, one.waits),
                began_s=one.began_s,
                ended_s=one.ended_s,
            )
        )
    return tasks


def _joined(processes: list[_Process]) -> _Process:
    """Return all processes as one; what one of them waited for, another one did."""
    first = min(processes, key=lambda one: one.began_s)
    ended_s = max(one.ended_s for one in processes)
    joined = _Process(first.number, first.program, "", {}, first.began_s, ended_s)
    for one in processes:
        joined.operations += one.operations
    return joined


def _parents(found: list[Call]) -> dict[int, tuple[int, bool]]:
    """Who began each process, and whether as a thread, which shares all with it."""
    return {
        one.result: (one.pid, any("CLONE_THREAD" in word for word in one.arguments))
        for one in found
        if one.name in _FORKS and one.result > 0
    }


class _Log:
    """The processes of a log as they go on, call by call."""

    def __init__(self, source: str, below: str) -> None:
        self._source = source
        self._below = os.path.normpath(below)
        self._live: dict[int, _Process] = {}
        self._sizes: dict[str, int] = {}
        self.processes: list[_Process] = []
        self.warnings: list[str] = []
        self.forked: dict[int, tuple[int, bool]] = {}

    def take(self, call: Call) -> None:
        """Take in one call."""
        process = self._process(call)
        process.ended_s = max(process.ended_s, call.at_s + call.took_s)
        if call.name in _WAITS:
            process.waits[call.at_s] = call.took_s
        elif call.name and call.result >= 0:
            handler = getattr(self, f"_on_{_KINDS.get(call.name, call.name)}", None)
            if handler is not None:
                handler(process, call)

    def _process(self, call: Call) -> _Process:
        known = self._live.get(call.pid)
        if known is not None:
            return known
        parent, is_thread = self.forked.get(call.pid, (None, False))
        begun = self._live.get(parent) if parent is not None else None
        if begun is not None and is_thread:
            self._live[call.pid] = begun
            return begun
        files = {} if begun is None else dict(begun.files)
        program = f"process-{call.pid}" if begun is None else begun.program
        directory = self._below if begun is None else begun.directory
        made = _Process(call.pid, program, directory, files, call.at_s, call.at_s)
        self._live[call.pid] = made
        self.processes.append(made)
        return made

    def _path(self, process: _Process, call: Call, at: int = 0) -> str:
        """Return the path of arguments such as `AT_FDCWD, "name"`, or of `"name"`."""
        number, known = descriptor(call.arguments[at])
        if call.arguments[at].startswith('"'):
            base, name = process.directory, text_of(call.arguments[at])
        else:
            base, name = known, text_of(call.arguments[at + 1])
            if not base:
                of = process.files.get(number) if number is not None else None
                base = of.path if of is not None else process.directory
        return os.path.normpath(PurePosixPath(base) / name)

    def _on_open(self, process: _Process, call: Call) -> None:
        at = 0 if call.name in ("open", "creat") else 1
        flags = call.arguments[at + 1] if len(call.arguments) > at + 1 else ""
        told = re.search(r"^<(.*)>$", call.told)
        path = told[1] if told else self._path(process, call)
        if "O_TRUNC" in flags or call.name == "creat":
            self._sizes[path] = 0
        process.files[call.result] = _Open(path, 0, "O_APPEND" in flags)

    def _on_close(self, process: _Process, call: Call) -> None:
        number, _ = descriptor(call.arguments[0])
        process.files.pop(-1 if number is None else number, None)

    def _file(self, process: _Process, argument: str) -> _Open:
        """Return an open file; of one that was opened before the log begins, what `-y` tells."""
        number, path = descriptor(argument)
        key = -1 if number is None else number
        known = process.files.get(key)
        if known is None or (path and known.path != path):
            known = process.files[key] = _Open(path)
        return known

    def _on_read(self, process: _Process, call: Call) -> None:
        self._next(process, call, "read")

    def _on_write(self, process: _Process, call: Call) -> None:
        self._next(process, call, "write")

    def _next(self, process: _Process, call: Call, kind: str) -> None:
        file = self._file(process, call.arguments[0])
        if kind == "write" and file.appends:
            file.position = self._sizes.get(file.path, 0)
        self._add(process, call, kind, file.path, file.position, call.result)
        file.position += call.result

    def _on_read_at(self, process: _Process, call: Call) -> None:
        self._at(process, call, "read")

    def _on_write_at(self, process: _Process, call: Call) -> None:
        self._at(process, call, "write")

    def _at(self, process: _Process, call: Call, kind: str) -> None:
        place = call.arguments[3] if len(call.arguments) > 3 else ""
        if not place.isdecimal():
            raise TraceError(
                self._source, f"line {call.line}", f"{call.name}: the offset {place!r} is no number"
            )
        path = self._file(process, call.arguments[0]).path
        self._add(process, call, kind, path, int(place), call.result)

    def _on_lseek(self, process: _Process, call: Call) -> None:
        self._file(process, call.arguments[0]).position = call.result

    def _on_dup(self, process: _Process, call: Call) -> None:
        if call.name.startswith("dup") or "F_DUPFD" in " ".join(call.arguments):
            process.files[call.result] = self._file(process, call.arguments[0])

    def _on_copy(self, process: _Process, call: Call) -> None:
        """`copy_file_range(in, …, out, …)` and `sendfile(out, in, …)`: a read and a write."""
        first, second = (1, 0) if call.name == "sendfile" else (0, 2)
        for argument, kind in ((first, "read"), (second, "write")):
            file = self._file(process, call.arguments[argument])
            self._add(process, call, kind, file.path, file.position, call.result)
            file.position += call.result

    def _on_mmap(self, process: _Process, call: Call) -> None:
        """A mapping is taken as a read of what it maps, as far as the file is known to reach."""
        if len(call.arguments) < 6 or "PROT_WRITE" in call.arguments[2]:
            return
        _, path = descriptor(call.arguments[4])
        length, offset = int(call.arguments[1], 0), int(call.arguments[5], 0)
        size = max(0, min(length, self._sizes.get(path, offset + length) - offset))
        if path:
            self._add(process, call, "read", path, offset, size)

    def _on_rename(self, process: _Process, call: Call) -> None:
        is_at = call.name != "rename"
        old = self._path(process, call)
        new = self._path(process, call, 2 if is_at else 1)
        self._sizes[new] = self._sizes.pop(old, 0)
        self._note(process, call, "rename", old, new)

    def _on_unlink(self, process: _Process, call: Call) -> None:
        path = self._path(process, call)
        self._sizes.pop(path, None)
        self._note(process, call, "unlink", path)

    def _on_chdir(self, process: _Process, call: Call) -> None:
        if call.name == "chdir":
            process.directory = self._path(process, call)
        else:
            process.directory = self._file(process, call.arguments[0]).path

    def _on_execve(self, process: _Process, call: Call) -> None:
        process.program = PurePosixPath(text_of(call.arguments[0])).name or process.program
        if not process.operations:
            process.began_s = call.at_s
            process.waits.clear()

    def _add(
        self, process: _Process, call: Call, kind: str, path: str, offset: int, size: int
    ) -> None:
        self._sizes[path] = max(self._sizes.get(path, 0), offset + size)
        if size and self._counts(path):
            name = os.path.relpath(path, self._below)
            process.operations.append(Operation(kind, name, offset, size, call.took_s, call.at_s))

    def _note(self, process: _Process, call: Call, kind: str, path: str, other: str = "") -> None:
        names = [os.path.relpath(one, self._below) if one else "" for one in (path, other)]
        if self._counts(path) or (other and self._counts(other)):
            process.operations.append(
                Operation(kind, names[0], seconds=call.took_s, at_s=call.at_s, other=names[1])
            )

    def _counts(self, path: str) -> bool:
        return path.startswith(self._below.rstrip("/") + "/")


_KINDS = {
    **dict.fromkeys(("open", "openat", "openat2", "creat"), "open"),
    **dict.fromkeys(_READS, "read"),
    **dict.fromkeys(_WRITES, "write"),
    **dict.fromkeys(_READS_AT, "read_at"),
    **dict.fromkeys(_WRITES_AT, "write_at"),
    **dict.fromkeys(("dup", "dup2", "dup3", "fcntl"), "dup"),
    **dict.fromkeys(("copy_file_range", "sendfile"), "copy"),
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"),
    **dict.fromkeys(("unlink", "unlinkat"), "unlink"),
    **dict.fromkeys(("chdir", "fchdir"), "chdir"),
}
