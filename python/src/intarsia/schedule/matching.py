"""A choice for all ready tasks at once: who takes the free slots of the hosts that hold data."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from intarsia.schedule.host import Host
from intarsia.schedule.task import Task

K = TypeVar("K", bound=Hashable)


def matched(tasks: Mapping[K, Task], hosts: Sequence[Host]) -> dict[K, str]:
    """Give free slots to the tasks that find most of their input there, most bytes first.

    Tasks that get none are left out. So no task is kept from a host by one that has less there.

    >>> tasks = {"s": Task({"a": 3}, 3), "t": Task({"a": 5, "b": 4}, 5), "u": Task({"a": 7}, 7)}
    >>> matched(tasks, [Host("a"), Host("b")])
    {'u': 'a', 't': 'b'}
    """
    free = {host.name: host.free_slots for host in hosts}
    pairs = [
        (held, key, host)
        for key, task in tasks.items()
        for host, held in task.bytes_by_host.items()
        if held and host in free
    ]
    found: dict[K, str] = {}
    for _, key, host in sorted(pairs, key=lambda pair: -pair[0]):
        slots = tasks[key].slots
        if key not in found and free[host] >= slots:
            found[key] = host
            free[host] -= slots
    return found
