"""Workloads from logs of `intarsia record`: a task is a process that reads or writes in a store."""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from intarsia.store import StoreError, find_binary
from intarsia.trace.errors import TraceError
from intarsia.trace.workload import Operation, Task, Workload, with_one_writer_each, with_pauses

MARK = b"intarsia-trace\n"
_NS = 1e-9
# What is read again and again is told as so many reads at most.
_MOST_REPEATS = 16
# A program that is the first word of a command whose second one says what is done.
_INTERPRETERS = ("python", "perl", "ruby", "Rscript", "sh", "bash", "dash", "node", "julia")
# The end of a process is seen a little after its files are closed, or before.
_SLACK_S = 0.05


@dataclass(slots=True)
class _Process:
    """A process of one host; moments are Unix times in seconds."""

    host: str
    pid: int
    parent_pid: int
    program: str
    began_s: float
    ended_s: float | None = None
    operations: list[Operation] = field(default_factory=list)

    @property
    def end_s(self) -> float:
        """When it ended, or when it was last seen."""
        last = max((one.at_s or 0.0) + one.seconds for one in self.operations or [_NOTHING])
        return self.ended_s if self.ended_s is not None else max(self.began_s, last)


_NOTHING = Operation("", at_s=0.0)


@dataclass(slots=True)
class _Open:
    """An open file, of which the log has yet to tell the close."""

    process: int
    path: str
    at_s: float
    reads_s: float
    size_bytes: int
    access: Mapping[str, bool]
    ranges: list[Operation] = field(default_factory=list)


def read_recorded(logs: Sequence[str], below: str = "", *, whole: bool = False) -> Workload:
    """Read the logs of all hosts of a run; `below` is a directory of the store, without the mount.

    With `whole` all processes are one task. Raises TraceError.
    """
    hosts = [_Log(path, below.strip("/")) for path in logs]
    for one in hosts:
        one.read()
    stores = {one.store for one in hosts}
    if len(stores) > 1:
        raise TraceError(logs[1], "", "is of another store than the first log", "give those of one")
    _check_hosts(hosts)
    found = [process for one in hosts for process in one.processes()]
    name = PurePosixPath(logs[0]).name.removesuffix(".trace")
    made = Workload(name, _tasks(found, whole=whole))
    made.warnings += [warning for one in hosts for warning in one.warnings]
    made = with_one_writer_each(made)
    if not made.tasks:
        where = f" below {below}" if below else ""
        raise TraceError(
            logs[0], "", f"no process reads or writes a file{where}", "record while programs run"
        )
    return made


def _check_hosts(logs: Sequence[_Log]) -> None:
    """Refuse two logs of a host that tell of the same time: each call would count twice."""
    by_host: dict[str, list[_Log]] = defaultdict(list)
    for one in logs:
        by_host[one.host].append(one)
    for same in by_host.values():
        same.sort(key=lambda one: one.began_s)
        for first, second in pairwise(same):
            if second.began_s == first.began_s:
                raise TraceError(second.source, "", f"is the same log as {first.source}")


def _tasks(processes: list[_Process], *, whole: bool) -> list[Task]:
    if whole and processes:
        first = min(processes, key=lambda one: one.began_s)
        joined = _Process(first.host, first.pid, first.parent_pid, first.program, first.began_s)
        joined.operations = [one for process in processes for one in process.operations]
        joined.ended_s = max(one.end_s for one in processes)
        processes = [joined]
    counts: Counter[str] = Counter()
    tasks = []
    for one in sorted(processes, key=lambda one: one.began_s):
        if not one.operations:
            continue
        counts[one.program] += 1
        operations = sorted(one.operations, key=lambda operation: operation.at_s or 0.0)
        waits = {
            other.began_s: other.end_s - other.began_s
            for other in processes
            if other.host == one.host and other.parent_pid == one.pid and other is not one
        }
        tasks.append(
            Task(
                f"{one.program}-{counts[one.program]}",
                one.program,
                with_pauses(operations, one.began_s, one.end_s, waits),
                host=one.host,
                began_s=one.began_s,
                ended_s=one.end_s,
            )
        )
    return tasks


class _Log:
    """What one log tells."""

    def __init__(self, source: str, below: str) -> None:
        self.source = source
        self.host = self.store = ""
        self.began_s = 0.0
        self.warnings: list[str] = []
        self._below = below
        self._processes: dict[int, _Process] = {}
        self._directories: dict[int, str] = {}
        self._open: dict[int, _Open] = {}
        self._known: Counter[str] = Counter()
        self._ended = False

    def read(self) -> None:
        """Read it; raises TraceError."""
        take = {
            "host": self._on_host,
            "process": self._on_process,
            "ended": self._on_ended,
            "directory": self._on_directory,
            "open": self._on_open,
            "range": self._on_range,
            "close": self._on_close,
            "name": self._on_name,
            "lost": self._on_lost,
            "end": self._on_end,
            "torn": self._on_torn,
        }
        for number, record in enumerate(_records(self.source), start=1):
            try:
                take[record["kind"]](record)
            except (KeyError, TypeError) as error:
                raise TraceError(
                    self.source, f"record {number}", f"cannot be used: {error}"
                ) from None
        self._close_rest()
        self._adopt()
        self._tell_what_is_inferred()

    def processes(self) -> Iterable[_Process]:
        """Return all of them, those too that only began others."""
        return self._processes.values()

    def _at_s(self, record: Mapping[str, Any], name: str = "at_ns") -> float:
        return self.began_s + float(record[name]) * _NS

    def _on_host(self, record: Mapping[str, Any]) -> None:
        self.host, self.store = record["name"], record["store"]
        self.began_s = record["began_unix_ns"] * _NS

    def _on_process(self, record: Mapping[str, Any]) -> None:
        number, program = record["process"], _program(record["program"], record["command"])
        known = self._processes.get(number)
        if known is not None:
            known.program = program
            return
        # The kernel counts in steps of 10 ms, so that it seems to begin after its first call.
        began_s = min(record["began_unix_ns"] * _NS or self._at_s(record), self._at_s(record))
        # What it did before the recording is none of the run.
        began_s = max(began_s, self.began_s)
        self._processes[number] = _Process(
            self.host, record["pid"], record["parent_pid"], program, began_s
        )

    def _on_ended(self, record: Mapping[str, Any]) -> None:
        if record["process"] in self._processes:
            self._processes[record["process"]].ended_s = self._at_s(record)

    def _on_directory(self, record: Mapping[str, Any]) -> None:
        self._directories[record["ino"]] = record["path"]

    def _on_open(self, record: Mapping[str, Any]) -> None:
        path = self._path(record["directory"], record["name"]) or f"#{record['file']}"
        at_s = self._at_s(record)
        self._open[record["handle"]] = _Open(
            record["process"],
            path,
            at_s,
            at_s + record["took_ns"] * _NS,
            record["size_bytes"],
            record["access"],
        )

    def _on_range(self, record: Mapping[str, Any]) -> None:
        file = self._open.get(record["handle"])
        if file is None:
            return
        kind = "write" if record["is_write"] else "read"
        span, count = record["span_bytes"], record["bytes"]
        times = min(_MOST_REPEATS, max(1, round(count / span))) if span else 1
        began_s, took_s = self._at_s(record, "began_ns"), record["took_ns"] * _NS
        for time in range(times):
            size, part_s = min(span, count), took_s / times
            at_s = began_s + time * part_s
            file.ranges.append(Operation(kind, file.path, record["offset"], size, part_s, at_s))

    def _on_close(self, record: Mapping[str, Any]) -> None:
        file = self._open.pop(record["handle"], None)
        if file is None:
            return
        process = self._process(file.process)
        process.operations += [one for one in file.ranges if self._counts(one)]
        read, written = record["read"], record["written"]
        if read["how"] != "seen":
            self._infer(process, "read", file, read, 0, file.reads_s)
        if written["how"] != "seen":
            behind = record["size_bytes"] - written["bytes"] if written["how"] == "growth" else 0
            self._infer(process, "write", file, written, behind, self._at_s(record))

    def _infer(
        self,
        process: _Process,
        kind: str,
        file: _Open,
        counted: Mapping[str, Any],
        offset: int,
        at_s: float,
    ) -> None:
        one = Operation(kind, file.path, offset, counted["bytes"], 0.0, at_s)
        if one.size and self._counts(one):
            self._known[counted["how"]] += 1
            process.operations.append(one)

    def _on_name(self, record: Mapping[str, Any]) -> None:
        old = self._path(record["directory"], record["name"])
        new = self._path(record["new_directory"], record["new_name"])
        kinds = {"rename": "rename", "unlink": "unlink"}
        kind = kinds.get(record["change"])
        if kind is None or old is None:
            return
        one = Operation(
            kind,
            self._inside(old) or old,
            seconds=record["took_ns"] * _NS,
            at_s=self._at_s(record),
            other=self._inside(new or "") or new or "",
        )
        self._process(record["process"]).operations.append(one)

    def _on_lost(self, record: Mapping[str, Any]) -> None:
        self.warnings.append(
            f"{self.source}: {record['records']} records were left out by the node"
        )

    def _on_end(self, record: Mapping[str, Any]) -> None:
        self._ended = True
        if record["is_full"]:
            self.warnings.append(
                f"{self.source}: the log was full before the end; allow more with --record-limit"
            )

    def _on_torn(self, record: Mapping[str, Any]) -> None:
        self._ended = True
        self.warnings.append(f"{self.source}: {record['what']}")

    def _process(self, number: int) -> _Process:
        """Who it is; what is done by nobody that is known has a process of its own."""
        if number not in self._processes:
            self._processes[number] = _Process(self.host, 0, 0, "unknown", self.began_s)
        return self._processes[number]

    def _path(self, directory: int, name: str) -> str | None:
        if not name or directory not in self._directories:
            return None
        return f"{self._directories[directory]}/{name}".lstrip("/")

    def _inside(self, path: str) -> str | None:
        """The path below the directory whose files count."""
        if not self._below:
            return path
        prefix = self._below + "/"
        return path.removeprefix(prefix) if path.startswith(prefix) else None

    def _counts(self, one: Operation) -> bool:
        inside = self._inside(one.file)
        one.file = inside or one.file
        return inside is not None

    def _close_rest(self) -> None:
        """Files that were open when the log ended: what was seen of them, and whole files read."""
        for file in self._open.values():
            process = self._process(file.process)
            process.operations += [one for one in file.ranges if self._counts(one)]
            if file.access["reads"] and file.access["is_passthrough"] and file.size_bytes:
                one = {"bytes": file.size_bytes, "how": "assumed"}
                self._infer(process, "read", file, one, 0, file.reads_s)
        if self._open:
            count = len(self._open)
            self.warnings.append(f"{self.source}: {count} files were still open when the log ended")
        elif not self._ended:
            self.warnings.append(
                f"{self.source}: the log goes on, or its node ended without a word"
            )
        self._open.clear()

    def _adopt(self) -> None:
        """Give what a shell opens for a command to the command.

        Of a redirection the shell opens the file and the command writes it, which the kernel does
        not say. It is the child that began after the file was opened and ended when it was closed.
        """
        children: dict[int, list[_Process]] = defaultdict(list)
        for process in self._processes.values():
            children[process.parent_pid].append(process)
        for process in list(self._processes.values()):
            kept = []
            for one in process.operations:
                heirs = [
                    child
                    for child in children.get(process.pid, [])
                    if one.kind == "write"
                    and not one.seconds
                    and one.at_s is not None
                    and child.began_s <= one.at_s
                    and abs(child.end_s - one.at_s) < _SLACK_S
                ]
                if len(heirs) == 1 and heirs[0].operations:
                    heirs[0].operations.append(one)
                else:
                    kept.append(one)
            process.operations = kept

    def _tell_what_is_inferred(self) -> None:
        words = {
            "assumed": "reads of whole files are assumed",
            "process": "are what the process moved meanwhile",
            "growth": "are what files grew by",
        }
        told = [f"{self._known[how]} {text}" for how, text in words.items() if self._known[how]]
        if told:
            self.warnings.append(
                f"{self.source}: the kernel moved bytes by itself: {', '.join(told)}"
            )


def _program(program: str, command: Sequence[str]) -> str:
    """The name of what runs: of an interpreter, that of the script.

    >>> _program("python3", ["/usr/bin/python3", "/opt/fit.py", "-x"]), _program("sort", [])
    ('fit.py', 'sort')
    """
    words = [word for word in command if word]
    # The kernel keeps 15 letters of a name.
    base = PurePosixPath(words[0]).name if words else ""
    name = base if base.startswith(program[:15]) else program
    is_script = len(words) > 1 and not words[1].startswith("-")
    if is_script and name.startswith(_INTERPRETERS):
        return PurePosixPath(words[1]).name
    return name or "unknown"


def _records(path: str) -> Iterable[Mapping[str, Any]]:
    """The records of a log, as the program tells them."""
    try:
        binary = find_binary()
    except StoreError as error:
        raise TraceError(path, "", str(error)) from None
    done = subprocess.run(
        [binary, "record", "show", "--json", str(Path(path))],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        told = done.stderr.strip().removeprefix("error: ").removeprefix(f"{path}: ")
        raise TraceError(path, "", told)
    return map(json.loads, done.stdout.splitlines())
