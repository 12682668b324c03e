"""Which hosts make, or have made, what later tasks read together with what a task makes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from intarsia.run.graph import Graph

# A task that reads more files than this reads them from all hosts anyway, and a file that more
# tasks read than this is wanted on all of them.
_NEIGHBOURS_MAX = 16


def are_kept_together(graph: Graph, reader: str) -> bool:
    """Whether tasks that make what another one reads run on one host, where that pays."""
    return 1 < len(graph.tasks[reader].inputs) <= _NEIGHBOURS_MAX


class Affinity:
    """Where tasks had best run for the sake of those that read what they make.

    A later task runs where most of its input is. Of what a task makes for it as much stays where it
    is as is there of the rest of its input, if that is on one host. Sizes are those that the graph
    knows, or that files of the same stage had; before any is known all files are as large.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        # By task that reads, and by host.
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        # What has been counted of a task that has begun.
        self._counted: dict[str, tuple[str, dict[str, int]]] = {}
        self._stages: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self._groups = _groups_of(graph)

    def in_turns(self, names: Iterable[str]) -> list[str]:
        """Deal tasks from groups that have nothing to do with each other, one of each in turn.

        So hosts that are all idle begin far from each other.
        """
        turns: Counter[str] = Counter()
        dealt: list[tuple[int, int, str]] = []
        for name in names:
            group = self._groups.get(name, name)
            dealt.append((turns[group], len(dealt), name))
            turns[group] += 1
        return [name for *_, name in sorted(dealt)]

    def began(self, name: str, host: str) -> set[str]:
        """A task has begun on a host; returns the tasks that this is of importance to."""
        self.forget(name)
        read = self._read_of(name)
        self._counted[name] = (host, read)
        for reader, size_bytes in read.items():
            self._held[reader][host] += size_bytes
        tasks, producer = self._graph.tasks, self._graph.producer
        files = (file for reader in read for file in tasks[reader].inputs)
        return {producer[file] for file in files if file in producer} - self._counted.keys()

    def made(self, name: str, size_bytes: Iterable[int]) -> None:
        """A task has made files of these sizes."""
        stage = self._graph.tasks[name].stage
        for one in size_bytes:
            count, total = self._stages[stage]
            self._stages[stage] = (count + 1, total + one)

    def forget(self, name: str) -> None:
        """What a task made is gone, or never came to be."""
        host, read = self._counted.pop(name, ("", {}))
        for reader, size_bytes in read.items():
            self._held[reader][host] -= size_bytes

    def of(self, name: str) -> Mapping[str, int]:
        """Return by host the bytes that later tasks need not move if a task runs there."""
        found: Counter[str] = Counter()
        for reader, size_bytes in self._read_of(name).items():
            held = self._held.get(reader)
            if not held:
                continue
            host = max(held, key=lambda one: held[one])
            if there := min(size_bytes, held[host]):
                found[host] += there
        return found

    def _read_of(self, name: str) -> dict[str, int]:
        """By task the bytes that it reads of what `name` makes."""
        read: Counter[str] = Counter()
        for file in self._graph.tasks[name].outputs:
            readers = self._graph.consumers.get(file, ())
            if len(readers) > _NEIGHBOURS_MAX:
                continue
            for reader in readers:
                if are_kept_together(self._graph, reader):
                    read[reader] += self._size_bytes(file, name)
        return dict(read)

    def _size_bytes(self, file: str, maker: str) -> int:
        if file in self._graph.size_bytes:
            return self._graph.size_bytes[file]
        count, total = self._stages[self._graph.tasks[maker].stage]
        return total // count if total else 1


def _groups_of(graph: Graph) -> dict[str, str]:
    """By task one that stands for all whose outputs are read together, or with those of such."""
    parent: dict[str, str] = {}

    def first(name: str) -> str:
        while (above := parent.setdefault(name, name)) != name:
            parent[name] = parent[above]
            name = above
        return name

    for reader in graph.tasks:
        if are_kept_together(graph, reader):
            inputs = graph.tasks[reader].inputs
            makers = [graph.producer[file] for file in inputs if file in graph.producer]
            for maker in makers[1:]:
                parent[first(maker)] = first(makers[0])
    return {name: first(name) for name in list(parent)}
