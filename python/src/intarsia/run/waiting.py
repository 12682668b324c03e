"""What a queue is told of the tasks that wait for a host."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from intarsia.locate import Locations
from intarsia.run.affinity import Affinity
from intarsia.run.graph import Graph
from intarsia.schedule import Task

#: Says where the input of a task lies, copies that hosts keep among it.
Known = Callable[[Locations, str], Locations]


class Waiting:
    """Where the input of tasks lies that wait, and what is read beside their outputs."""

    def __init__(self, graph: Graph, known: Known, affinity: Affinity | None) -> None:
        self._graph = graph
        self._known = known
        self._affinity = affinity
        #: By task, as the store says it.
        self.inputs: dict[str, Locations] = {}

    def in_turns(self, names: Iterable[str]) -> Iterable[str]:
        """Return tasks that become ready at once in the order in which they had best begin."""
        return names if self._affinity is None else self._affinity.in_turns(names)

    def add(self, name: str, found: Locations) -> None:
        """A task waits, whose input is `found`."""
        self.inputs[name] = found

    def task(self, name: str) -> Task:
        """Return what the queue is to know of a task that waits."""
        known = self._known(self.inputs[name], name)
        task = Task.reading(known, slots=self._graph.tasks[name].cores)
        if self._affinity is None:
            return task
        return replace(task, affinity_by_host=self._affinity.of(name))

    def began(self, name: str, host: str) -> list[str]:
        """A task begins on a host; returns the tasks of which the queue is to know more now."""
        self.inputs.pop(name, None)
        if self._affinity is None:
            return []
        return sorted(self._affinity.began(name, host) & self.inputs.keys())

    def done(self, name: str, size_bytes: Iterable[int]) -> None:
        """A task has made files of these sizes."""
        if self._affinity is not None:
            self._affinity.made(name, size_bytes)

    def undone(self, name: str) -> None:
        """A task waits again: what it made is gone, or never came to be."""
        if self._affinity is not None:
            self._affinity.forget(name)

    def readers(self, files: Iterable[str]) -> list[str]:
        """Return the tasks that wait and read some of `files`, which a host has by now."""
        others = {other for file in files for other in self._graph.consumers.get(file, ())}
        return sorted(others & self.inputs.keys())
