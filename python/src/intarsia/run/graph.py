"""A workflow: tasks, the files that they read and write, and who waits for whom."""

from __future__ import annotations

import graphlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


class GraphError(ValueError):
    """A workflow cannot be run as it is written; each line says what is wrong and where."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))


@dataclass(frozen=True, slots=True)
class Task:
    """One task: a command for the shell.

    `inputs` and `outputs` are files, relative to the directory of the run or absolute; `after`
    names tasks that must be done although none of their files is read. `stage` is the kind of
    task, for reports. `stdin` is what the command reads from its standard input, else nothing.
    `cores`: slots of a host that it takes. `retries` and `timeout_s` (seconds): None is what the
    run says. `hints` are for all its outputs, and win over derived ones. `temp` names those outputs
    that may go when all tasks that read them are done. `recipe` is what the command comes to, where
    it does not say that itself.
    """

    name: str
    command: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    stage: str = ""
    cores: int = 1
    retries: int | None = None
    timeout_s: float | None = None
    hints: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    compute_s: float = 0.0
    temp: tuple[str, ...] = ()
    recipe: str = ""


@dataclass(frozen=True)
class Graph:
    """Tasks in an order in which they could run one after the other.

    `size_bytes` says of the files whose size is known before how large they are. `warnings` are
    for the user. Made by `graph_of`, which looks for mistakes.
    """

    name: str
    tasks: Mapping[str, Task]
    producer: Mapping[str, str]
    consumers: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, frozenset[str]]
    children: Mapping[str, frozenset[str]]
    size_bytes: Mapping[str, int]
    warnings: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Files that are read and that no task makes."""
        return tuple(file for file in self.consumers if file not in self.producer)

    @property
    def results(self) -> tuple[str, ...]:
        """Files that a task makes and none reads."""
        return tuple(file for file in self.producer if file not in self.consumers)

    def is_result(self, file: str) -> bool:
        """Whether no task reads `file`."""
        return file not in self.consumers


def graph_of(
    source: str,
    name: str,
    tasks: Iterable[Task],
    size_bytes: Mapping[str, int] | None = None,
    warnings: Iterable[str] = (),
) -> Graph:
    """Make a graph of tasks; raises GraphError naming `source` for what cannot be run."""
    by_name: dict[str, Task] = {}
    problems = []
    for task in tasks:
        if task.name in by_name:
            problems.append(f"task {task.name}: there are two of this name")
        by_name[task.name] = task
    producer, twice = _producers(by_name.values())
    problems += twice
    problems += [
        f"task {task.name}: field 'after': there is no task {other!r}"
        for task in by_name.values()
        for other in task.after
        if other not in by_name
    ]
    if not by_name:
        problems.append("there are no tasks")
    if problems:
        raise GraphError(source, problems)
    parents = {
        task.name: frozenset(task.after)
        | {producer[file] for file in task.inputs if file in producer}
        for task in by_name.values()
    }
    order = _in_order(source, by_name, parents)
    consumers: dict[str, list[str]] = defaultdict(list)
    children: dict[str, set[str]] = {one: set() for one in order}
    for one in order:
        for file in by_name[one].inputs:
            consumers[file].append(one)
        for parent in parents[one]:
            children[parent].add(one)
    return Graph(
        name,
        {one: by_name[one] for one in order},
        producer,
        {file: tuple(found) for file, found in consumers.items()},
        parents,
        {one: frozenset(found) for one, found in children.items()},
        dict(size_bytes or {}),
        tuple(warnings),
    )


def _producers(tasks: Iterable[Task]) -> tuple[dict[str, str], list[str]]:
    """Who makes which file, and which files have two makers or are read by their own."""
    producer: dict[str, str] = {}
    problems = []
    for task in tasks:
        for file in task.outputs:
            other = producer.setdefault(file, task.name)
            if other != task.name:
                problems.append(
                    f"task {task.name}: field 'outputs': {file} is made by task {other} too"
                )
        problems += [
            f"task {task.name}: field 'temp': {file} is none of its outputs"
            for file in task.temp
            if file not in task.outputs
        ]
        problems += [
            f"task {task.name}: field 'outputs': {file} is among its inputs"
            for file in dict.fromkeys(task.outputs)
            if file in task.inputs
        ]
    problems += [
        f"task {name}: field 'outputs': {file} lies in {above}, which task {producer[above]} makes "
        "as a file"
        for file, name in producer.items()
        for above in _above(file)
        if above in producer
    ]
    return producer, problems


def _above(file: str) -> Iterator[str]:
    """The directories that a file lies in, as far as its name has them."""
    while file := file.rpartition("/")[0]:
        yield file


def _in_order(
    source: str, tasks: Mapping[str, Task], parents: Mapping[str, frozenset[str]]
) -> list[str]:
    """Order tasks so that each comes after its parents, else as they are written."""
    sorter = graphlib.TopologicalSorter(parents)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(error.args[1])
        raise GraphError(source, [f"tasks wait for each other: {circle}"]) from None
    rank = {name: number for number, name in enumerate(tasks)}
    order: list[str] = []
    ready: list[tuple[int, str]] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, (rank[name], name))
        _, name = heapq.heappop(ready)
        order.append(name)
        sorter.done(name)
    return order
