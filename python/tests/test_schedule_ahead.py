"""Copies that are made ahead of waiting tasks."""

import random

import pytest
from intarsia.schedule import Host, Task, TaskQueue, copies_ahead, delayed

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("seed", range(30))
def test_copies_keep_within_bounds(seed: int) -> None:
    chance = random.Random(seed)
    hosts = [Host(name, chance.randint(0, 2), chance.choice([0.0, 3.0, 9.0])) for name in NAMES]
    waiting = []
    for number in range(12):
        held = {name: chance.randint(1, 9) for name in NAMES if chance.random() < 0.5}
        waiting.append((number, Task(held, sum(held.values()), waited_s=chance.random())))
    taking, under_way = {chance.choice(NAMES)}, {chance.randint(0, 11)}
    room = chance.randint(0, 40)
    found = copies_ahead(waiting, hosts, taking=taking, under_way=under_way, room_bytes=room)
    assert sum(copy.size_bytes for copy in found) <= room
    to = [copy.host for copy in found]
    assert len(set(to)) == len(to)
    assert not taking & set(to)
    assert not under_way & {copy.key for copy in found}
    for copy in found:
        assert copy.size_bytes == dict(waiting)[copy.key].remote_bytes(copy.host) > 0


def test_a_task_begins_where_its_input_was_copied_and_waits_no_longer() -> None:
    queue: TaskQueue[str] = TaskQueue({"a": 1, "b": 1}, delayed)
    queue.add("first", Task({"a": 7}, 7), 0.0)
    queue.add("second", Task({"a": 7}, 7), 0.0)
    assert [(start.key, start.host) for start in queue.start(0.0)] == [("first", "a")]
    (copy,) = copies_ahead(
        queue.waiting(1.0), queue.hosts(1.0), taking=(), under_way=(), room_bytes=100
    )
    assert (copy.key, copy.host, copy.size_bytes) == ("second", "b", 7)
    queue.update("second", Task({"a": 7, "b": 7}, 7))
    assert [(start.key, start.host) for start in queue.start(1.0)] == [("second", "b")]
    queue.update("second", Task())
    assert queue.waiting(1.0) == []
