"""A workload: tasks with their operations on files. Every form of record becomes this one."""

from __future__ import annotations

import graphlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from intarsia.trace.errors import TraceError

#: A pause of a task that is longer than this ends a run of reads or writes.
PAUSE_S = 0.01


@dataclass(slots=True)
class Operation:
    """What a task does: open, read, write, close, rename, unlink or compute.

    `seconds` is how long it took, of a computation what it takes; `at_s` when it began (Unix time),
    None where nobody knows. `other` is the new name of a rename.
    """

    kind: str
    file: str = ""
    offset: int = 0
    size: int = 0
    seconds: float = 0.0
    at_s: float | None = None
    other: str = ""

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.offset + self.size


@dataclass(slots=True)
class Task:
    """One task. `began_s` and `ended_s` are Unix times, None where nobody knows.

    `overhead_s` is what the workflow engine takes to start it.
    """

    name: str
    stage: str
    operations: list[Operation] = field(default_factory=list)
    after: tuple[str, ...] = ()
    slots: int = 1
    host: str = ""
    began_s: float | None = None
    ended_s: float | None = None
    overhead_s: float = 0.0

    @property
    def compute_s(self) -> float:
        """Seconds of computation."""
        return sum(one.seconds for one in self.operations if one.kind == "compute")

    def files(self, kind: str) -> dict[str, int]:
        """Files that it reads or writes, with the bytes up to which it does."""
        found: dict[str, int] = {}
        for one in self.operations:
            if one.kind == kind:
                found[one.file] = max(found.get(one.file, 0), one.end)
        return found


@dataclass(slots=True)
class Workload:
    """Tasks and files with their sizes in bytes. `warnings` are for the user.

    `hints` has what the user tells the store of a file, by name.
    """

    name: str
    tasks: list[Task]
    files: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    hints: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def stages(self) -> list[str]:
        """The names of the stages, in the order of their first tasks."""
        return list(dict.fromkeys(task.stage for task in self.tasks))

    def writers(self) -> dict[str, str]:
        """Return who writes each file."""
        return {file: task.name for task in self.tasks for file in task.files("write")}

    def parents(self) -> dict[str, set[str]]:
        """Return the tasks that each task waits for."""
        writers = self.writers()
        found = {}
        for task in self.tasks:
            waits = {writers[file] for file in task.files("read") if file in writers}
            found[task.name] = (waits | set(task.after)) - {task.name}
        return found

    def check(self, source: str) -> None:
        """Raise TraceError if tasks wait for one another in a circle."""
        try:
            graphlib.TopologicalSorter(self.parents()).prepare()
        except graphlib.CycleError as error:
            circle = " -> ".join(error.args[1])
            raise TraceError(
                source,
                "",
                f"tasks exchange files in a circle: {circle}",
                "processes that work together are one task: --tasks log",
            ) from None

    def native(self) -> dict[str, Any]:
        """Return the form that `intarsia predict` reads."""
        return {
            "format": "intarsia-workload",
            "version": 1,
            "name": self.name,
            "files": [self._file(name) for name in self.files],
            "tasks": [_native(task) for task in self.tasks],
        }

    def _file(self, name: str) -> dict[str, Any]:
        hints = {"hints": self.hints[name]} if name in self.hints else {}
        return {"name": name, "size_bytes": self.files[name], **hints}


def _native(task: Task) -> dict[str, Any]:
    made: dict[str, Any] = {"name": task.name, "stage": task.stage}
    if task.after:
        made["after"] = list(task.after)
    if task.slots > 1:
        made["slots"] = task.slots
    if task.overhead_s:
        made["overhead_seconds"] = task.overhead_s
    made["operations"] = [_said(one) for one in task.operations]
    return made


def _said(one: Operation) -> dict[str, Any]:
    if one.kind == "compute":
        return {"compute_seconds": round(one.seconds, 9)}
    if one.kind in ("read", "write"):
        return {one.kind: one.file, "offset_bytes": one.offset, "size_bytes": one.size}
    return {one.kind: one.file}


def with_pauses(
    operations: Iterable[Operation], began_s: float, ended_s: float, blocked: Mapping[float, float]
) -> list[Operation]:
    """Put the time between operations in as computation, and join reads and writes that go on.

    `blocked` has when, and for how long, the task waited for something that is no computation.
    """
    made: list[Operation] = []
    now, saved = began_s, 0.0
    waits = sorted(blocked.items())
    for one in operations:
        at = one.at_s or now
        pause = _computing(now, at, waits)
        now = max(now, at + one.seconds)
        last = made[-1] if made else None
        if last is not None and pause < PAUSE_S and _goes_on(last, one):
            last.size += one.size
            last.seconds += one.seconds
            saved += pause
            continue
        if saved + pause > 0:
            made.append(Operation("compute", seconds=saved + pause, at_s=at - pause))
        saved = 0.0
        made.append(one)
    rest = saved + _computing(now, ended_s, waits)
    if rest > 0:
        made.append(Operation("compute", seconds=rest, at_s=ended_s - rest))
    return made


def _goes_on(last: Operation, one: Operation) -> bool:
    return (
        one.kind in ("read", "write")
        and (last.kind, last.file) == (one.kind, one.file)
        and last.end == one.offset
    )


def _computing(start: float, end: float, waits: Iterable[tuple[float, float]]) -> float:
    """Seconds between two moments without those that were waited."""
    waited = sum(max(0.0, min(end, at + took) - max(start, at)) for at, took in waits)
    return max(0.0, end - start - waited)


def with_one_writer_each(workload: Workload) -> Workload:
    """Give every file one writer: what another task writes anew is a file of its own, `name@2`.

    Operations are taken in the order of their times; renames and removals are followed and left
    out. Sizes become what is read and written of each file.
    """
    current: dict[str, str] = {}
    writer: dict[str, str] = {}
    versions: dict[str, int] = defaultdict(int)
    own: dict[tuple[str, str], str] = {}
    sizes: dict[str, int] = {}

    def version(raw: str) -> str:
        versions[raw] += 1
        name = raw if versions[raw] == 1 else f"{raw}@{versions[raw]}"
        sizes.setdefault(name, 0)
        current[raw] = name
        return name

    def named(task: str, one: Operation) -> str:
        name = current.get(one.file)
        if one.kind != "write":
            return name or version(one.file)
        if name is not None and writer.get(name) == task:
            return name
        if (task, one.file) in own:
            return own[task, one.file]
        made = version(one.file)
        writer[made] = task
        own[task, one.file] = made
        return made

    events = [(one.at_s or 0.0, task, one) for task in workload.tasks for one in task.operations]
    for _, task, one in sorted(events, key=lambda event: event[0]):
        if one.kind == "rename":
            if one.file in current:
                current[one.other] = current.pop(one.file)
        elif one.kind == "unlink":
            current.pop(one.file, None)
        elif one.kind in ("read", "write"):
            one.file = named(task.name, one)
            sizes[one.file] = max(sizes[one.file], one.end)
    for task in workload.tasks:
        task.operations = _opened(task.operations)
    workload.tasks = [task for task in workload.tasks if task.files("read") or task.files("write")]
    many = sum(count > 1 for count in versions.values())
    if many:
        workload.warnings.append(f"{many} files were written anew; each version is a file here")
    workload.files = sizes
    return workload


def _opened(operations: Iterable[Operation]) -> list[Operation]:
    """Keep what counts, with an open before the first read of a file and a close after the last."""
    kept = [one for one in operations if one.kind in ("read", "write", "compute")]
    last = {one.file: number for number, one in enumerate(kept) if one.file}
    seen: set[str] = set()
    made = []
    for number, one in enumerate(kept):
        if one.kind == "read" and one.file not in seen:
            made.append(Operation("open", one.file, at_s=one.at_s))
        seen.add(one.file)
        made.append(one)
        if one.file and last[one.file] == number:
            made.append(Operation("close", one.file, at_s=one.at_s))
    return made
