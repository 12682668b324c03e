"""Copies made ahead: what a waiting task reads goes where it can begin next, while others run.

The idea is that of WOW (arXiv 2503.13072, 2025): tasks run
where all of their input is, and copies that make this so are made beside running tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from intarsia.schedule.host import Host
from intarsia.schedule.task import Task

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Copy(Generic[K]):
    """The input of a task that is to be copied to a host, and how many bytes that lacks."""

    key: K
    host: str
    size_bytes: int


def copies_ahead(
    waiting: Sequence[tuple[K, Task]],
    hosts: Sequence[Host],
    *,
    taking: Collection[str],
    under_way: Collection[K],
    room_bytes: int,
    space_bytes: Mapping[str, int] | None = None,
) -> list[Copy[K]]:
    """Choose copies for tasks that wait, those that wait longest first.

    Each goes to the host that is free soonest, of equal ones to that which lacks least. A host
    takes one copy at a time, beside those that are `taking` one now; tasks whose copy is
    `under_way` get no other. Nothing is copied for a task that can soonest begin at its data, and
    in all no more than `room_bytes`. `space_bytes` says how much single hosts can take; one that
    could not take what a task lacks there is passed over.

    >>> hosts = [Host("a", free_slots=0, wait_s=5.0), Host("b")]
    >>> copies_ahead([("t", Task({"a": 7}, 7))], hosts, taking=(), under_way=(), room_bytes=10)
    [Copy(key='t', host='b', size_bytes=7)]
    >>> copies_ahead([("t", Task({"b": 7}, 7))], hosts, taking=(), under_way=(), room_bytes=10)
    []
    """
    found: list[Copy[K]] = []
    left = {host.name: host for host in hosts if host.name not in taking}
    for key, task in sorted(waiting, key=lambda item: -item[1].waited_s):
        if key in under_way or not task.bytes_by_host or not left:
            continue
        best = _soonest(task, left.values(), space_bytes or {})
        lacks = task.remote_bytes(best.name) if best is not None else 0
        if best is not None and 0 < lacks <= room_bytes:
            found.append(Copy(key, best.name, lacks))
            room_bytes -= lacks
            del left[best.name]
    return found


def _soonest(task: Task, hosts: Collection[Host], space_bytes: Mapping[str, int]) -> Host | None:
    """Return the host that is free soonest, of those that have space for what the task lacks."""
    able = [
        host
        for host in hosts
        if host.name not in space_bytes or task.remote_bytes(host.name) <= space_bytes[host.name]
    ]
    return min(able, key=lambda host: _rank(task, host), default=None)


def _rank(task: Task, host: Host) -> tuple[bool, float, int, int]:
    is_full = host.free_slots < task.slots
    return is_full, host.wait_s, task.remote_bytes(host.name), -host.free_slots
