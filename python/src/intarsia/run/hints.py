"""Hints for a workflow's files, derived from who writes and who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intarsia.run.graph import Graph

#: A hint costs about 1 ms; a link of 1 Gbit/s carries some 120 kB in that time.
WORTH_BYTES = 128 << 10
# Fewer files than this are read from their hosts in the time of one.
_GROUP_FILES = 3
# Fewer readers than this may well run where the file lies.
_SPREAD_READERS = 3


@dataclass(frozen=True, slots=True)
class Cluster:
    """What hints depend on: how many hosts there are, and the least size that is worth one."""

    hosts: int
    worth_bytes: int = WORTH_BYTES


def hints_of(graph: Graph, cluster: Cluster) -> dict[str, dict[str, str]]:
    """Return the hints of files by their names; a task's own win over derived ones.

    Files whose size is known to be less than `worth_bytes` get none, those of unknown size do.
    """
    found = {}
    for file in dict.fromkeys([*graph.producer, *graph.sources]):
        hints = _derived(graph, file, cluster) if _is_worth(graph, file, cluster) else {}
        producer = graph.producer.get(file)
        if producer is not None:
            hints = _joined(hints, graph.tasks[producer].hints)
        if hints:
            found[file] = hints
    return found


def own_hints(graph: Graph) -> dict[str, dict[str, str]]:
    """Return only the hints that tasks name themselves, by files."""
    return {
        file: dict(graph.tasks[name].hints)
        for file, name in graph.producer.items()
        if graph.tasks[name].hints
    }


def _derived(graph: Graph, file: str, cluster: Cluster) -> dict[str, str]:
    readers = graph.consumers.get(file, ())
    if cluster.hosts < 2 or not readers:
        return {}
    if len(readers) > 1:
        # No `replicas`: copies that are made at once take the link as long as the readers do.
        return {"pattern": "broadcast"} if len(readers) >= _SPREAD_READERS else {}
    if file not in graph.producer:
        return {}
    (reader,) = readers
    if _is_gathered(graph, reader, cluster):
        return {"place": f"collocate:{reader}"}
    return {"place": "local"}


def _is_gathered(graph: Graph, reader: str, cluster: Cluster) -> bool:
    """Whether a task reads several files that others write for it alone."""
    alone = [
        file
        for file in graph.tasks[reader].inputs
        if file in graph.producer
        and graph.consumers[file] == (reader,)
        and _is_worth(graph, file, cluster)
    ]
    return len(alone) >= _GROUP_FILES and len({graph.producer[file] for file in alone}) > 1


def _is_worth(graph: Graph, file: str, cluster: Cluster) -> bool:
    return graph.size_bytes.get(file, cluster.worth_bytes) >= cluster.worth_bytes


def _joined(derived: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Let a task's own hints win; a place or pattern of its own excludes derived ones."""
    excluded = {"pattern", "place"} if {"pattern", "place"} & set(own) else set()
    kept = {name: value for name, value in derived.items() if name not in excluded}
    return kept | dict(own)
