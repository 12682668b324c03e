"""Copies made ahead: what a waiting task reads goes where it can begin next, while others run.

The idea is that of WOW (arXiv 2503.13072, 2025): tasks run
where all of their input is, and copies that make this so are made beside running tasks.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from intarsia.schedule.host import Host
from intarsia.schedule.task import Task

K = TypeVar("K", bound=Hashable)

#: Tasks whose input each host is to have: with one, its link would idle until that begins.
TURNS = 2
#: Of so many tasks that wait longest they are chosen, so that many more cost no time.
LOOKED_AT = 1000


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
    """Choose copies for tasks that wait, so that each begins on a host that is free soon.

    The host that is free soonest is to run the task of whose input it lacks least, as it would
    take it then anyway; of equal ones the task that waits longest. What it lacks is copied there,
    nothing where that is nothing; then the next host chooses among the other tasks, and after the
    last one all choose once more, for the task after. A host takes one copy at a time, beside those
    that are `taking` one now; tasks whose copy is `under_way` get no other. In all no more than
    `room_bytes` are copied. `space_bytes` says how much single hosts can take: a task that lacks
    more there is none for such a host.

    >>> hosts = [Host("a", free_slots=0, wait_s=5.0), Host("b")]
    >>> copies_ahead([("t", Task({"a": 7}, 7))], hosts, taking=(), under_way=(), room_bytes=10)
    [Copy(key='t', host='b', size_bytes=7)]
    >>> copies_ahead([("t", Task({"b": 7}, 7))], hosts, taking=(), under_way=(), room_bytes=10)
    []
    """
    known = ((key, task) for key, task in waiting if key not in under_way and task.bytes_by_host)
    longest = heapq.nsmallest(LOOKED_AT, known, key=lambda item: -item[1].waited_s)
    left = dict(longest)
    able = [host for host in hosts if host.name not in taking]
    found: dict[str, Copy[K]] = {}
    for _ in range(TURNS):
        for choice in _turn(able, left, space_bytes or {}):
            if choice.host not in found and 0 < choice.size_bytes <= room_bytes:
                found[choice.host] = choice
                room_bytes -= choice.size_bytes
    return list(found.values())


def _turn(
    hosts: Sequence[Host], left: dict[K, Task], space_bytes: Mapping[str, int]
) -> Iterator[Copy[K]]:
    """Yield what each host is to run next, taken out of `left`, with what it lacks of it."""
    choices = {host: _choice(host, left, space_bytes.get(host.name)) for host in hosts}
    while ready := {host: choice for host, choice in choices.items() if choice is not None}:
        host = min(ready, key=lambda host: (host.wait_s, ready[host].size_bytes))
        chosen = ready[host]
        del left[chosen.key], choices[host]
        for other, choice in choices.items():
            if choice is not None and choice.key == chosen.key:
                choices[other] = _choice(other, left, space_bytes.get(other.name))
        yield chosen


def _choice(host: Host, tasks: Mapping[K, Task], space_bytes: int | None) -> Copy[K] | None:
    """Return what a host that is free takes, with what it lacks of it; None where nothing fits."""
    best: Copy[K] | None = None
    longest_s = 0.0
    for key, task in tasks.items():
        lacks = task.remote_bytes(host.name)
        if space_bytes is not None and lacks > space_bytes:
            continue
        if best is None or (lacks, -task.waited_s) < (best.size_bytes, -longest_s):
            best, longest_s = Copy(key, host.name, lacks), task.waited_s
    return best
