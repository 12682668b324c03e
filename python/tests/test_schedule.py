"""Policies against brute force over small cases, and the queue against what it must keep."""

from __future__ import annotations

import doctest
import itertools
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from intarsia import locate, units
from intarsia.engines import shell
from intarsia.learn import observed, rules
from intarsia.locate import striped_bytes
from intarsia.schedule import (
    Host,
    Policy,
    Task,
    TaskQueue,
    blind,
    delayed,
    least_cost,
    matched,
    most_local,
    soonest_local,
)
from intarsia.schedule import cost as cost_module
from intarsia.schedule import delay as delay_module
from intarsia.schedule import local as local_module
from intarsia.schedule import matching as matching_module
from intarsia.schedule.cost import cost_s
from intarsia.schedule.nearest import Nearest

NAMES = "abcd"
CASES = range(60)


def some_hosts(chance: random.Random) -> list[Host]:
    return [
        Host(name, free, 0.0 if free else chance.uniform(0, 9), chance.choice([10.0, 100.0]))
        for name in NAMES[: chance.randint(1, 4)]
        for free in [chance.randint(0, 2)]
    ]


def some_task(chance: random.Random) -> Task:
    held = {name: chance.randint(0, 300) for name in chance.sample(NAMES, chance.randint(0, 4))}
    # Copies make hosts hold more together than a task reads.
    size = max(held.values(), default=0) + chance.randint(0, 200)
    return Task(held, size, slots=chance.randint(1, 2), waited_s=chance.choice([0.0, 5.0]))


@pytest.mark.parametrize(
    "module",
    [
        locate,
        shell,
        units,
        observed,
        rules,
        cost_module,
        delay_module,
        local_module,
        matching_module,
    ],
)
def test_the_examples_of_the_policies_hold(module: ModuleType) -> None:
    ran = doctest.testmod(module)
    assert ran.attempted > 0
    assert ran.failed == 0


@pytest.mark.parametrize("seed", CASES)
def test_no_host_with_room_holds_more_than_the_chosen_one(seed: int) -> None:
    chance = random.Random(seed)
    hosts, task = some_hosts(chance), some_task(chance)
    with_room = [host for host in hosts if host.free_slots >= task.slots]
    chosen = most_local(task, hosts)
    assert (chosen is None) == (not with_room)
    if chosen is not None:
        assert chosen in with_room
        held = [task.local_bytes(host.name) for host in with_room]
        assert task.local_bytes(chosen.name) == max(held)


@pytest.mark.parametrize("seed", CASES)
def test_no_host_costs_less_than_the_chosen_one(seed: int) -> None:
    chance = random.Random(seed)
    hosts, task = some_hosts(chance), some_task(chance)
    chosen, least_s = least_cost(task, hosts), min(cost_s(task, host) for host in hosts)
    if chosen is not None:
        assert cost_s(task, chosen) == least_s
        assert chosen.free_slots >= task.slots
    else:
        full = [host for host in hosts if host.free_slots < task.slots]
        assert min(cost_s(task, host) for host in full) == least_s


@pytest.mark.parametrize("seed", CASES)
def test_a_task_waits_for_its_host_only_within_its_patience(seed: int) -> None:
    chance = random.Random(seed)
    hosts, task = some_hosts(chance), some_task(chance)
    chosen, anywhere = delayed(task, hosts, patience_s=3.0), most_local(task, hosts)
    most = max(task.local_bytes(host.name) for host in hosts)
    if anywhere is None:
        assert chosen is None
    elif task.waited_s > 3.0 or task.local_bytes(anywhere.name) == most:
        assert chosen == anywhere
    else:
        assert chosen is None


@pytest.mark.parametrize("seed", CASES)
def test_no_host_that_is_free_soon_holds_more_than_the_chosen_one(seed: int) -> None:
    chance = random.Random(seed)
    hosts, task = some_hosts(chance), some_task(chance)
    chosen = soonest_local(task, hosts, patience_s=2.0)
    assert chosen is not None
    least_s = min(host.wait_s for host in hosts)
    assert chosen.wait_s <= least_s + 2.0
    for host in hosts:
        if host.wait_s <= least_s + 2.0:
            assert task.local_bytes(host.name) <= task.local_bytes(chosen.name)


@pytest.mark.parametrize("policy", [blind, most_local, least_cost, delayed])
@pytest.mark.parametrize("seed", range(20))
def test_a_queue_runs_every_task_once_and_never_fills_a_host_beyond_its_slots(
    policy: Policy, seed: int
) -> None:
    chance = random.Random(seed)
    slots = {name: chance.randint(1, 3) for name in NAMES}
    queue: TaskQueue[int] = TaskQueue(slots, policy)
    tasks = [some_task(chance) for _ in range(20)]
    running: dict[int, tuple[str, int]] = {}
    ended: list[int] = []
    for now_s in itertools.count():
        assert now_s < 1000, "tasks wait for ever"
        if now_s < len(tasks):
            queue.add(now_s, tasks[now_s], float(now_s))
        for start in queue.start(float(now_s)):
            running[start.key] = (start.host, start.task.slots)
        used: Counter[str] = Counter()
        for host, taken in running.values():
            used[host] += taken
        assert all(used[name] <= slots[name] for name in slots)
        for key in [key for key in running if chance.random() < 0.5]:
            del running[key]
            queue.finish(key, float(now_s))
            ended.append(key)
        if now_s >= len(tasks) and not running and not len(queue):
            break
    assert sorted(ended) == list(range(20))


@pytest.mark.parametrize("seed", range(20))
def test_with_endless_patience_as_many_bytes_are_local_as_can_be(seed: int) -> None:
    """Brute force: every way to give the tasks to the hosts."""
    chance = random.Random(seed)
    tasks = [some_task(chance) for _ in range(4)]
    ways = itertools.product(NAMES, repeat=len(tasks))
    best = max(sum(t.local_bytes(h) for t, h in zip(tasks, way, strict=True)) for way in ways)
    queue: TaskQueue[int] = TaskQueue(
        dict.fromkeys(NAMES, 1), partial(delayed, patience_s=float("inf"))
    )
    for key, task in enumerate(tasks):
        queue.add(key, task, 0.0)
    found, now_s = 0, 0.0
    while len(queue):
        starts = queue.start(now_s)
        assert starts
        found += sum(tasks[start.key].local_bytes(start.host) for start in starts)
        now_s += 1.0
        for start in starts:
            queue.finish(start.key, now_s)
    assert found == best


def local_bytes_of_rounds(tasks: list[Task], *, in_order: bool) -> int:
    """Bytes that are local where one host after the other comes free and no task waits."""
    queue: TaskQueue[int] = TaskQueue(dict.fromkeys(NAMES, 1), most_local, in_order=in_order)
    for key, task in enumerate(tasks):
        queue.add(key, task, 0.0)
    found = 0
    running: list[int] = []
    while len(queue) or running:
        for start in queue.start(0.0):
            found += tasks[start.key].local_bytes(start.host)
            running.append(start.key)
        queue.finish(running.pop(0), 0.0)
    return found


def test_a_free_host_takes_the_task_of_which_it_has_most() -> None:
    """As in a mosaic: each task reads two of many files, which lie on hosts in turn."""
    chance = random.Random(3)
    tasks = []
    for _ in range(200):
        one, other = chance.sample(NAMES, 2)
        tasks.append(Task({one: 10, other: 10}, 20))
    in_order = local_bytes_of_rounds(tasks, in_order=True)
    assert local_bytes_of_rounds(tasks, in_order=False) >= 0.98 * 200 * 10 > 1.2 * in_order


def is_none_of(keys: set[int]) -> Callable[[int], bool]:
    return lambda key: key not in keys


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_task_is_the_one_that_looking_at_all_finds(seed: int) -> None:
    chance = random.Random(seed)
    nearest: Nearest[int] = Nearest()
    known: dict[int, Task] = {}
    for step in range(200):
        key = chance.randrange(40)
        if chance.random() < 0.3:
            nearest.discard(key)
            known.pop(key, None)
        else:
            known[key] = some_task(chance)
            nearest.add(key, known[key])
        hosts = chance.sample(NAMES, chance.randint(1, len(NAMES)))
        unwanted = set(chance.sample(range(40), 10))
        found = nearest.take(hosts, is_none_of(unwanted))
        nearest.put_back()
        shares = {
            key: max(task.local_bytes(host) / max(1, task.input_bytes) for host in hosts)
            for key, task in known.items()
            if key not in unwanted
        }
        best = max(shares.values(), default=0.0)
        assert (found is None) == (best == 0.0), step
        assert found is None or shares[found] == best


def test_tasks_with_data_choose_before_those_without() -> None:
    queue: TaskQueue[str] = TaskQueue({"a": 1, "b": 1}, most_local)
    queue.add("anywhere", Task(), 0.0)
    queue.add("on a", Task({"a": 5}, 5), 0.0)
    assert {start.key: start.host for start in queue.start(0.0)} == {"on a": "a", "anywhere": "b"}


def test_a_shell_that_names_no_host_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'ssh n1' has no \{host\}"):
        shell.on_host("ssh n1", "n1", "true", Path("/"))


def test_a_queue_refuses_hosts_that_can_run_nothing() -> None:
    with pytest.raises(ValueError, match="no hosts"):
        TaskQueue({}, blind)
    with pytest.raises(ValueError, match="host a has 0 slots"):
        TaskQueue({"a": 0}, blind)
    with pytest.raises(ValueError, match="link_bytes_per_s"):
        Host("a", link_bytes_per_s=0.0)


@pytest.mark.parametrize("seed", range(40))
def test_bytes_of_a_striped_file_are_those_of_its_chunks(seed: int) -> None:
    chance = random.Random(seed)
    size, chunk = chance.randint(0, 100), chance.randint(1, 9)
    hosts = [chance.choice(NAMES) for _ in range(chance.randint(1, 5))]
    held = Counter(hosts[byte // chunk % len(hosts)] for byte in range(size))
    assert striped_bytes(size, chunk, hosts) == dict.fromkeys(hosts, 0) | held


@pytest.mark.parametrize("seed", CASES)
def test_of_all_ready_tasks_none_is_kept_from_a_host_by_one_with_less_there(seed: int) -> None:
    chance = random.Random(seed)
    hosts = some_hosts(chance)
    tasks = {number: some_task(chance) for number in range(chance.randint(0, 8))}
    found = matched(tasks, hosts)
    for host in hosts:
        mine = [key for key, name in found.items() if name == host.name]
        assert sum(tasks[key].slots for key in mine) <= host.free_slots
        for key, task in tasks.items():
            held = task.local_bytes(host.name)
            better = [one for one in mine if tasks[one].local_bytes(host.name) >= held]
            taken = sum(tasks[one].slots for one in better)
            if held and host.free_slots - taken >= task.slots and key not in mine:
                assert tasks[key].local_bytes(found[key]) >= held
    assert all(tasks[key].local_bytes(host) for key, host in found.items())
