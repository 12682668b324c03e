"""Copies ahead keep within their budget: in all, on each host, and of each host's link."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from intarsia.locate import Located, Locations
from intarsia.run.ahead import Ahead, Budget
from intarsia.run.events import Fetched
from intarsia.run.order import Order
from intarsia.schedule import Task, TaskQueue, delayed

SIZE = 100


class Fetchers:
    """A crew that only takes note of what it is to fetch."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def begin(self, key: str, host: str, order: Order) -> None:
        raise AssertionError("nothing begins here")

    def wait(self, timeout_s: float) -> list[object]:
        raise AssertionError("nothing is waited for here")

    def stop_tasks(self) -> None:
        raise AssertionError("nothing is stopped here")

    def fetch(self, host: str, paths: Sequence[str]) -> None:
        self.asked.append((host, tuple(paths)))


class Waiting:
    """Tasks that each read a file of the host `a`, which alone is busy."""

    def __init__(self, tasks: int, budget: Budget, hosts: str = "abcd") -> None:
        self.crew = Fetchers()
        self.ahead = Ahead(self.crew, budget)  # type: ignore[arg-type]
        self.queue: TaskQueue[str] = TaskQueue(dict.fromkeys(hosts, 1), delayed)
        self.queue.add("busy", Task({"a": 1}, 1), 0.0)
        assert len(self.queue.start(0.0)) == 1
        self.inputs = {
            f"t{n}": Locations((Located(f"/f{n}", SIZE, {"a": SIZE}),)) for n in range(tasks)
        }
        for name, found in self.inputs.items():
            self.queue.add(name, Task.reading(found), 0.0)

    def begin(self, now_s: float) -> int:
        """Have copies begin; return how many do, all of which are through at once."""
        begun = self.ahead.begin(self.queue, self.inputs, now_s)
        for name in begun:
            found = self.ahead.known(self.inputs[name], name)
            self.queue.update(name, Task.reading(found))
        for host, paths in self.crew.asked[-len(begun) :] if begun else []:
            self.ahead.ended(Fetched(host, paths, True))
        return len(begun)


def test_nothing_is_copied_without_a_budget_and_no_more_than_there_is() -> None:
    assert Waiting(9, Budget()).begin(11.0) == 0
    some = Waiting(9, Budget(3 * SIZE))
    copied = sum(some.begin(11.0 + n) for n in range(5))
    assert copied == 3
    assert some.ahead.copied_bytes == 3 * SIZE


def test_a_host_takes_no_more_than_its_space_until_what_it_has_is_used() -> None:
    some = Waiting(9, Budget(100 * SIZE, host_bytes=SIZE))
    for n in range(5):
        some.begin(11.0 + n)
    (first, *_) = per_host = Counter(host for host, _ in some.crew.asked)
    assert set(per_host.values()) == {1}
    (name,) = [path[1:].replace("f", "t") for path in dict(some.crew.asked)[first]]
    some.queue.discard(name)
    some.ahead.started(name)
    some.begin(20.0)
    assert Counter(host for host, _ in some.crew.asked)[first] == 2


def test_links_carry_copies_at_no_more_than_their_rate() -> None:
    """All copies come from one host, whose link gives a tenth of a copy in a second."""
    some = Waiting(9, Budget(100 * SIZE, link_bytes_per_s=SIZE / 10))
    begun = [some.begin(11.0 + n) for n in range(40)]
    assert [n for n, count in enumerate(begun) if count] == [0, 10, 20, 30]
    assert set(begun) == {0, 1}
    free = Waiting(9, Budget(100 * SIZE))
    assert sum(free.begin(11.0 + n) for n in range(4)) > 4


@pytest.mark.parametrize("seed", range(30))
def test_the_budget_holds_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    budget = Budget(chance.randint(1, 9) * SIZE, chance.randint(1, 3) * SIZE, SIZE / 2)
    some = Waiting(12, budget)
    for step in range(30):
        some.begin(11.0 + step / 4)
        if chance.random() < 0.2:
            some.ahead.forget((), chance.choice("abcd"))
        moved = Counter(host for host, _ in some.crew.asked)
        assert some.ahead.copied_bytes <= budget.total_bytes
        # A copy that has begun is charged as a whole.
        assert max(moved.values(), default=0) <= 1 + (step / 4) * 0.5
