"""Observations from a run of Nextflow: its trace, and the work directory that it speaks of.

The trace says which tasks there were, the work directory what each of them read and made: inputs
are links, outputs are files, and `.command.begin` and `.exitcode` bear the times. Where files lie
is asked of the store.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from intarsia.learn.observed import File, LearnError, Observed, Ran, Read
from intarsia.locate import Locations, locate

Locate = Callable[[Iterable[str]], Locations]

_DONE = ("COMPLETED", "CACHED")
_CONTROL = ".command."
_EXIT = ".exitcode"


@dataclass(frozen=True, slots=True)
class _Task:
    name: str
    stage: str
    directory: Path
    host: str


def is_trace(text: str) -> bool:
    """Whether a text is a trace of Nextflow: a table with tabs between that names tasks."""
    first = text.partition("\n")[0].split("\t")
    return "name" in first and bool({"hash", "workdir"} & set(first))


def read_trace(source: str, text: str, work: Path, where: Locate = locate) -> Observed:
    """Read what a run was observed to do; `work` is its work directory (`-w`).

    Raises LearnError for a trace that names no task that is done, or whose work directory is gone.
    """
    rows = csv.DictReader(io.StringIO(text), delimiter="\t")
    done = [row for row in rows if row.get("status", _DONE[0]) in _DONE]
    tasks = [task for row in done if (task := _task(row, work)) is not None]
    if not done:
        raise LearnError(source, "no task is done in it", "give the trace of a run that went well")
    if not tasks:
        raise LearnError(
            source,
            f"none of its {len(done)} tasks has a directory in {work}",
            "name the work directory of the run with --work",
        )
    return Observed(source, tuple(_files(tasks, where)))


def _task(row: Mapping[str, str], work: Path) -> _Task | None:
    name = row.get("name") or ""
    stage = row.get("process") or name.partition(" (")[0]
    if row.get("workdir"):
        directory = Path(row["workdir"])
    else:
        # The hash is the beginning of the directory's name, as in `ab/cdef01`.
        head, _, rest = (row.get("hash") or "").partition("/")
        found = sorted((work / head).glob(f"{rest}*")) if head and rest else []
        directory = found[0] if len(found) == 1 else work / "none"
    if not directory.is_dir():
        return None
    host = row.get("hostname") or ""
    return _Task(name, stage, directory.resolve(), "" if host == "-" else host)


def _files(tasks: list[_Task], where: Locate) -> Iterator[File]:
    made = {path: task for task in tasks for path in _outputs(task.directory)}
    lying = {one.path: one.hosts for one in where([str(path) for path in made]).files}
    # What a task makes is born on its host: that tells the host where the trace does not.
    hosts = {task.name: task.host for task in tasks}
    for path, task in made.items():
        if not hosts[task.name] and len(lying[str(path)]) == 1:
            hosts[task.name] = lying[str(path)][0]
    ran = {one.name: Ran(one.stage, hosts[one.name], *_span(one.directory)) for one in tasks}
    reads: dict[Path, list[Read]] = defaultdict(list)
    for task in tasks:
        for path in _inputs(task.directory):
            reads[path].append(ran[task.name].reading(task.name))
    for path, task in made.items():
        maker = ran[task.name]
        yield File(
            str(path),
            path.stat().st_size,
            task.name,
            task.stage,
            maker.host,
            maker.ended_s,
            lying[str(path)],
            {},
            tuple(reads[path]),
            maker.took_s,
        )


def _outputs(directory: Path) -> list[Path]:
    """Files that a task made in its directory, and that the engine did not."""
    found = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    own = [path for path in found if not path.name.startswith((_CONTROL, _EXIT))]
    return [path for path in own if not path.is_symlink()]


def _inputs(directory: Path) -> list[Path]:
    """Files that a task reads: links to where others made them."""
    return [path.resolve() for path in sorted(directory.iterdir()) if path.is_symlink()]


def _span(directory: Path) -> tuple[float | None, float | None]:
    """When the task of a directory began and ended."""
    return _time_of(directory / f"{_CONTROL}begin"), _time_of(directory / _EXIT)


def _time_of(path: Path) -> float | None:
    return path.stat().st_mtime if path.exists() else None
