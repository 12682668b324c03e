"""Delay scheduling: a task waits a while for its data's host, then runs elsewhere.

The idea is that of Zaharia et al., "Delay scheduling", EuroSys 2010: tasks are short beside the
jobs they belong to, so a slot at the right host comes free soon.
"""

from __future__ import annotations

from collections.abc import Sequence

from intarsia.schedule.host import Host
from intarsia.schedule.local import most_local
from intarsia.schedule.task import Task

PATIENCE_S = 3.0


def delayed(task: Task, hosts: Sequence[Host], *, patience_s: float = PATIENCE_S) -> Host | None:
    """Return the host that holds most of the input; while it is busy None, up to `patience_s`.

    After that, and for a task whose input none of `hosts` holds, as `most_local`. For engines
    that keep a task until a slot is free.

    >>> hosts = [Host("a", free_slots=0), Host("b")]
    >>> delayed(Task({"a": 7}, 7, waited_s=1.0), hosts)
    >>> delayed(Task({"a": 7}, 7, waited_s=3.0), hosts).name
    'b'
    """
    best = most_local(task, hosts)
    most = max((task.local_bytes(host.name) for host in hosts), default=0)
    if best is None or task.local_bytes(best.name) == most or task.waited_s >= patience_s:
        return best
    return None


def soonest_local(
    task: Task, hosts: Sequence[Host], *, patience_s: float = PATIENCE_S
) -> Host | None:
    """Return the host that holds most of the input among those that are free soon enough.

    Soon enough is `Host.wait_s` of at most `patience_s` more than that of the least busy host; of
    equal ones the least busy. For engines that send a task to a host's queue at once.

    >>> hosts = [Host("a", wait_s=2.0), Host("b")]
    >>> soonest_local(Task({"a": 7}, 7), hosts).name
    'a'
    >>> soonest_local(Task({"a": 7}, 7), hosts, patience_s=1.0).name
    'b'
    """
    limit_s = min((host.wait_s for host in hosts), default=0.0) + patience_s
    soon = [host for host in hosts if host.wait_s <= limit_s]

    def rank(host: Host) -> tuple[int, float]:
        return task.local_bytes(host.name), -host.wait_s

    return max(soon, key=rank, default=None)
