"""Which tasks have to run: those that are not done, and those whose lost files are still needed.

A task's lineage is a hash of its command, its files and the lineages of what it reads. As long as
it stays the same, what the task made is still right, whoever made its inputs anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from intarsia.run.graph import Graph, Task
from intarsia.run.order import Stamp

#: Says how a file looks now; None where there is none.
StampOf = Callable[[str], Stamp | None]


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of a task that is done: its lineage, and how its outputs looked."""

    lineage: str
    outputs: Mapping[str, Stamp]


def lineages(graph: Graph, stamp_of: StampOf) -> dict[str, str]:
    """Return the lineage of each task, from how the workflow's own inputs look now."""
    found: dict[str, str] = {}
    sources = {file: stamp_of(file) for file in graph.sources}
    for name, task in graph.tasks.items():
        reads = [
            [file, found[graph.producer[file]]] if file in graph.producer else _seen(file, sources)
            for file in task.inputs
        ]
        content = [_words_of(task), reads]
        text = json.dumps(content, sort_keys=True)
        found[name] = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return found


def needed(
    graph: Graph, lineage: Mapping[str, str], made: Mapping[str, Made], stamp_of: StampOf
) -> set[str]:
    """Return the tasks that have to run.

    Those are the ones that were never done as they are written now, those whose results are gone,
    and, transitively, the makers of files that these read and that are gone or were changed.
    """
    is_done = {name: _is_done(graph, name, lineage, made, stamp_of) for name in graph.tasks}
    found: set[str] = set()
    # From the last to the first, so that all readers of a file are known before its maker.
    for name in reversed(list(graph.tasks)):
        task = graph.tasks[name]
        wanted = [
            file
            for file in task.outputs
            if any(reader in found for reader in graph.consumers.get(file, ()))
        ]
        record = made.get(name)
        if not is_done[name] or not all(_is_whole(file, record, stamp_of) for file in wanted):
            found.add(name)
    return found


def _is_done(
    graph: Graph,
    name: str,
    lineage: Mapping[str, str],
    made: Mapping[str, Made],
    stamp_of: StampOf,
) -> bool:
    record = made.get(name)
    if record is None or record.lineage != lineage[name]:
        return False
    results = [file for file in graph.tasks[name].outputs if graph.is_result(file)]
    return all(_is_whole(file, record, stamp_of) for file in results)


def _is_whole(file: str, record: Made | None, stamp_of: StampOf) -> bool:
    return record is not None and file in record.outputs and stamp_of(file) == record.outputs[file]


def _words_of(task: Task) -> list[object]:
    """What decides about a task's outputs; not how often or for how long it is tried."""
    return [task.command, task.stdin, task.outputs, sorted(task.after)]


def _seen(file: str, sources: Mapping[str, Stamp | None]) -> list[object]:
    stamp = sources[file]
    return [file, *((stamp.size_bytes, stamp.mtime_ns) if stamp else ())]
