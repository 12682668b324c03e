"""Hints for a workflow's files, derived from who writes and who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intarsia.learn.lessons import Lesson
from intarsia.learn.observed import Role, role_of
from intarsia.run.affinity import are_kept_together
from intarsia.run.graph import Graph
from intarsia.schedule.host import LINK_BYTES_PER_S

#: A hint costs about 1 ms; a link of 1 Gbit/s carries some 120 kB in that time.
WORTH_BYTES = 128 << 10
# Fewer files than this are read from their hosts in the time of one.
_GROUP_FILES = 3
# A file of which the store takes no pieces: it comes from its home (docs/user/hints-and-rules.md).
_SPREAD_MIN_BYTES = 512 << 10
# What spreading takes beyond one reading of the file, measured (docs/figures-workflows.md): up to
# a quarter of that, and the questions before the first piece comes.
_SPREAD_SHARE = 1.25
_SPREAD_S = 0.01


@dataclass(frozen=True, slots=True)
class Cluster:
    """What hints depend on: how many hosts there are, and the least size that is worth one.

    `by_affinity`: tasks run where what is read beside their outputs is (`intarsia.run.affinity`).
    """

    hosts: int
    worth_bytes: int = WORTH_BYTES
    link_bytes_per_s: float = LINK_BYTES_PER_S
    by_affinity: bool = False

    @classmethod
    def linked(cls, hosts: int, link_bytes_per_s: float, *, by_affinity: bool = False) -> Cluster:
        """Hosts with links of that rate: over a faster one only larger files are worth a hint."""
        worth_bytes = round(WORTH_BYTES * link_bytes_per_s / LINK_BYTES_PER_S)
        return cls(hosts, worth_bytes, link_bytes_per_s, by_affinity)

    def gains_by_spreading(self, size_bytes: int | None, readers: int) -> bool:
        """Whether so many tasks have a file sooner that they take from each other.

        One of them may run where the file lies, and several on one host read what it has. Without
        the hint the file leaves its home once for each of the other hosts. How much of it they
        read does not matter: a host takes what its tasks read. Of unknown size it is worth a try.
        """
        others = min(readers, self.hosts) - 1
        if size_bytes is None:
            return others > _SPREAD_SHARE
        one_s = size_bytes / self.link_bytes_per_s
        gained_s = (others - _SPREAD_SHARE) * one_s
        return size_bytes >= _SPREAD_MIN_BYTES and gained_s > _SPREAD_S


def hints_of(
    graph: Graph, cluster: Cluster, lessons: Mapping[Role, Lesson] | None = None
) -> dict[str, dict[str, str]]:
    """Return the hints of files by their names; a task's own win over derived ones.

    Files whose size is known to be less than `worth_bytes` get none, those of unknown size do.
    For files of a rule of which an earlier run has taught something, that counts.
    """
    found = {}
    for file in dict.fromkeys([*graph.producer, *graph.sources]):
        hints: dict[str, str] = {}
        if _is_worth(graph, file, cluster):
            lesson = (lessons or {}).get(role_in(graph, file))
            if lesson is None or cluster.hosts < 2:
                hints = _derived(graph, file, cluster)
            else:
                hints = lesson.hints_for(graph.consumers.get(file, ()))
        producer = graph.producer.get(file)
        if producer is not None:
            hints = _joined(hints, graph.tasks[producer].hints)
        if hints:
            found[file] = hints
    return found


def role_in(graph: Graph, file: str) -> Role:
    """Return the rule that a file belongs to; what no task makes has a maker without a name."""
    maker = graph.producer.get(file)
    readers = (graph.tasks[name].stage for name in graph.consumers.get(file, ()))
    return role_of("" if maker is None else graph.tasks[maker].stage, file, readers)


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
        apart = [name for name in readers if not _follows(graph, name, file, cluster)]
        gains = cluster.gains_by_spreading(graph.size_bytes.get(file), len(apart))
        return {"pattern": "broadcast"} if gains else {}
    if file not in graph.producer:
        return {}
    (reader,) = readers
    if _is_gathered(graph, reader, cluster):
        return {"place": f"collocate:{reader}"}
    return {"place": "local"}


def _follows(graph: Graph, reader: str, file: str, cluster: Cluster) -> bool:
    """Whether a task runs where `file` is made since as much of what it reads is made there too."""
    if not cluster.by_affinity or not are_kept_together(graph, reader):
        return False
    sizes = {
        one: graph.size_bytes.get(one, cluster.worth_bytes)
        for one in graph.tasks[reader].inputs
        if one in graph.producer
    }
    return file in sizes and 2 * sizes[file] <= sum(sizes.values())


def _is_gathered(graph: Graph, reader: str, cluster: Cluster) -> bool:
    """Whether a task reads several files that others write for it alone, wherever they run."""
    if cluster.by_affinity and are_kept_together(graph, reader):
        return False
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
