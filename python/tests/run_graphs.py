"""Random workflows, and a crew that needs no processes, for the tests of `intarsia.run`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from intarsia.run.attempt import stamp_of
from intarsia.run.events import Event, Fetched, HostJoined, TaskEnded
from intarsia.run.graph import Graph, Task, graph_of
from intarsia.run.moment import Moment, picture_of
from intarsia.run.order import Order, Outcome, Result


def random_graph(chance: random.Random, tasks: int) -> Graph:
    """Each task makes one or two files, and reads some that earlier ones make, and an input."""
    files: list[str] = []
    made = []
    for number in range(tasks):
        inputs = chance.sample(files, min(len(files), chance.randint(0, 3)))
        if chance.random() < 0.3:
            inputs.append(f"in{chance.randint(0, 2)}")
        outputs = [f"f{number}.{part}" for part in range(chance.randint(1, 2))]
        made.append(Task(f"t{number}", f"make {number}", tuple(inputs), tuple(outputs)))
        files += outputs
    chance.shuffle(made)
    return graph_of("random", "random", made)


class Quiet:
    """Shows nothing, and keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    warn = say

    def update(self, moment: Moment) -> None:
        picture_of(moment)


class HereCrew:
    """Makes attempts at once, by a function, on hosts that are names alone."""

    def __init__(self, slots: dict[str, int], make: Callable[[Order, str], Outcome]) -> None:
        self._events: list[Event] = [HostJoined(host, n) for host, n in slots.items()]
        self._make = make
        self.begun: list[tuple[str, str]] = []
        self.is_stopped = False
        self.is_one_silent = False

    def begin(self, key: str, host: str, order: Order) -> None:
        self.begun.append((order.task, host))
        self._events.append(TaskEnded(key, self._make(order, host)))

    def wait(self, timeout_s: float) -> list[Event]:
        # One at a time, so that the order in which things happen is of many kinds.
        return [self._events.pop(0)] if self._events else []

    def tell(self, event: Event) -> None:
        self._events.append(event)

    def fetch(self, host: str, paths: Sequence[str]) -> None:
        self._events.append(Fetched(host, tuple(paths), True))

    def has_silent(self) -> bool:
        return self.is_one_silent

    def stop_tasks(self) -> None:
        self.is_stopped = True


def make_here(order: Order, _host: str) -> Outcome:
    """Make what a task is to make: the names of what it reads, and its own."""
    for path in order.inputs:
        assert Path(path).exists(), f"{order.task} was begun before {path} was there"
    for path in order.outputs:
        Path(path).write_text(f"{order.command} of {order.inputs}")
    made = {path: stamp for path in order.outputs if (stamp := stamp_of(path))}
    return Outcome(Result.DONE, began_s=1.0, ended_s=2.0, outputs=made)
