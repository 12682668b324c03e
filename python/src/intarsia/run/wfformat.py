"""Reads WfFormat, the format of WfCommons, for a replay: real bytes in place of the programs.

What the format does not say is taken as `intarsia predict` takes it: a task reads its input files
whole, computes, and writes its output files whole; the computation is
`runtimeInSeconds · min(avgCPU, 100) / 100`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from intarsia.run.graph import Graph, GraphError, Task, graph_of
from intarsia.run.replay import Replay, imitated

# 1.6 adds fields that are not needed here.
VERSIONS = ("1.5", "1.6")
_NAME_LIMIT = 200


def read_wfformat(source: str, text: str, replay: Replay) -> Graph:
    """Read the text of an instance; raises GraphError with all that is wrong in it."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise GraphError(source, [f"is no JSON: {error}"]) from None
    except RecursionError:
        raise GraphError(source, ["is nested too deeply"]) from None
    return graph_of_instance(source, document, replay)


def graph_of_instance(source: str, document: Any, replay: Replay) -> Graph:
    """Make a graph of the JSON of an instance; raises GraphError with all that is wrong in it.

    Its files get names that are safe below one directory: what is no letter, digit or one of
    `_.-~#:` is written as in a URL.
    """
    return _Instance(source, document, replay).graph()


def task_name(identifier: str) -> str:
    """Return the name that a task of this identifier has in a graph.

    >>> task_name("mProject/1")
    'mProject%2F1'
    """
    return quote(identifier, safe="")[:_NAME_LIMIT]


def is_wfformat(text: str) -> bool:
    """Whether a file looks like WfFormat, and not like a graph of commands."""
    return '"schemaVersion"' in text and text.lstrip().startswith("{")


class _Instance:
    """One instance as it is read, and what is found wrong."""

    def __init__(self, source: str, document: Any, replay: Replay) -> None:
        self._source = source
        self._replay = replay
        self._problems: list[str] = []
        self._warnings: list[str] = []
        self._document = document if isinstance(document, dict) else {}
        version = self._document.get("schemaVersion")
        if version not in VERSIONS:
            known = " and ".join(VERSIONS)
            raise GraphError(
                source, [f"field 'schemaVersion': {version!r} is unknown; known are {known}"]
            )

    def graph(self) -> Graph:
        workflow = self._object(self._document, "workflow", "workflow")
        specification = self._object(workflow, "specification", "workflow.specification")
        sizes = self._sizes(specification)
        runs = self._runs(self._object(workflow, "execution", "workflow.execution"))
        after = self._relations(specification)
        tasks = [
            self._task(number, task, sizes, runs, after)
            for number, task in enumerate(self._objects(specification, "tasks"))
        ]
        empty = sum(not size for size in sizes.values())
        if empty:
            self._warnings.append(f"{empty} of {len(sizes)} files have 0 bytes")
        if self._problems:
            raise GraphError(self._source, self._problems)
        name = str(self._document.get("name") or "workflow")
        scaled = {file_name(file): self._replay.bytes_of(size) for file, size in sizes.items()}
        return graph_of(self._source, name, tasks, scaled, self._warnings)

    def _object(self, parent: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
        value = parent.get(key)
        if not isinstance(value, dict):
            raise GraphError(self._source, [*self._problems, f"field '{place}' is missing"])
        return value

    def _objects(self, parent: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        value = parent.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self._problems.append(f"field '{key}': a list of objects is expected")
            return []
        return value

    def _sizes(self, specification: Mapping[str, Any]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for number, file in enumerate(self._objects(specification, "files")):
            size = file.get("sizeInBytes")
            if not isinstance(file.get("id"), str):
                self._problems.append(f"files[{number}]: field 'id': a word is expected")
            elif isinstance(size, bool) or not isinstance(size, int) or size < 0:
                self._problems.append(
                    f"file {file['id']}: field 'sizeInBytes': a whole number from 0 is expected"
                )
            elif sizes.setdefault(file["id"], size) != size:
                self._problems.append(f"file {file['id']}: there are two of this id")
        return sizes

    def _runs(self, execution: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        return {str(task.get("id")): task for task in self._objects(execution, "tasks")}

    def _relations(self, specification: Mapping[str, Any]) -> dict[str, set[str]]:
        """Tasks that each task comes after; either of the two may say so."""
        after = defaultdict(set)
        known = {task.get("id") for task in self._objects(specification, "tasks")}
        for task in self._objects(specification, "tasks"):
            name = str(task.get("id"))
            for field in ("parents", "children"):
                for other in self._words(task, name, field):
                    if other not in known:
                        self._problems.append(
                            f"task {name}: field '{field}': there is no task {other!r}"
                        )
                    first, second = (other, name) if field == "parents" else (name, other)
                    after[second].add(first)
        return after

    def _words(self, task: Mapping[str, Any], name: str, field: str) -> list[str]:
        value = task.get(field, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._problems.append(f"task {name}: field '{field}': a list of words is expected")
            return []
        return list(dict.fromkeys(value))

    def _task(
        self,
        number: int,
        task: Mapping[str, Any],
        sizes: Mapping[str, int],
        runs: Mapping[str, Mapping[str, Any]],
        after: Mapping[str, set[str]],
    ) -> Task:
        name = task.get("id")
        if not isinstance(name, str) or not name:
            self._problems.append(f"tasks[{number}]: field 'id': a word is expected")
            return Task(str(number), "")
        files = {field: self._words(task, name, field) for field in ("inputFiles", "outputFiles")}
        for field, found in files.items():
            self._problems += [
                f"task {name}: field '{field}': {file!r} is not among the files"
                for file in found
                if file not in sizes
            ]
        run = runs.get(name, {})
        reads = [file for file in files["inputFiles"] if file not in files["outputFiles"]]
        if len(reads) < len(files["inputFiles"]):
            self._warnings.append(f"task {name} reads what it writes; it only writes that here")
        title = task.get("name")
        return imitated(
            self._replay,
            name=task_name(name),
            stage=self._stage(run, title if isinstance(title, str) and title else name),
            reads=[file_name(file) for file in reads],
            writes={
                file_name(file): self._replay.bytes_of(sizes.get(file, 0))
                for file in files["outputFiles"]
            },
            after=sorted(task_name(one) for one in after.get(name, ())),
            compute_s=self._compute_s(name, run),
            cores=self._cores(name, run),
        )

    def _stage(self, run: Mapping[str, Any], title: str) -> str:
        command = run.get("command")
        program = command.get("program") if isinstance(command, dict) else None
        return program if isinstance(program, str) and program else stem(title)

    def _compute_s(self, name: str, run: Mapping[str, Any]) -> float:
        runtime_s, cpu_percent = run.get("runtimeInSeconds"), run.get("avgCPU", 100.0)
        for field, value in (("runtimeInSeconds", runtime_s), ("avgCPU", cpu_percent)):
            is_number = isinstance(value, int | float) and math.isfinite(value) and value >= 0
            if not is_number:
                self._problems.append(
                    f"task {name}: field '{field}' in workflow.execution.tasks: "
                    f"a number from 0 is expected, not {value!r}"
                )
                return 0.0
        return float(runtime_s or 0.0) * min(float(cpu_percent), 100.0) / 100

    def _cores(self, name: str, run: Mapping[str, Any]) -> int:
        cores = run.get("coreCount", 1)
        if isinstance(cores, int | float) and math.isfinite(cores):
            return max(1, math.ceil(cores))
        self._problems.append(
            f"task {name}: field 'coreCount' in workflow.execution.tasks: "
            f"a number is expected, not {cores!r}"
        )
        return 1


def stem(name: str) -> str:
    """Return a name without the number that makes it unique.

    >>> stem("mProject_ID0000001"), stem("blastall_00000002"), stem("7")
    ('mProject', 'blastall', '7')
    """
    short = name.rstrip("0123456789").removesuffix("ID").rstrip("_-.")
    return short or name


def file_name(identifier: str) -> str:
    """Return the name of a file, safe below one directory, for any identifier.

    >>> file_name("a/b c#1"), file_name(".."), len(file_name("x" * 300))
    ('a%2Fb%20c#1', '%2E%2E', 200)
    """
    name = quote(identifier, safe="~#:")
    if name.startswith("."):
        name = name.replace(".", "%2E")
    if len(name) <= _NAME_LIMIT:
        return name
    return f"{name[: _NAME_LIMIT - 17]}-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"
