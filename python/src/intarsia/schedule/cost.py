"""The policy that weighs waiting for a host against moving the input to another."""

from __future__ import annotations

from collections.abc import Sequence

from intarsia.schedule.host import Host
from intarsia.schedule.task import Task


def cost_s(task: Task, host: Host) -> float:
    """Seconds until the task could have begun on `host` and have read its input there.

    With those in which later tasks move what they read beside what it makes. Reading one's own disk
    is taken to be free beside the link.
    """
    return host.wait_s + task.far_bytes(host.name) / host.link_bytes_per_s


def least_cost(task: Task, hosts: Sequence[Host]) -> Host | None:
    """Return the host of least `cost_s`, or None when it has no room: waiting for it pays.

    Of equal ones the one with more free slots. `Host.wait_s` of a host without room says how
    long it is busy; left at 0, every task waits for its data.

    >>> busy = Host("a", free_slots=0, wait_s=2.0, link_bytes_per_s=100.0)
    >>> free = Host("b", link_bytes_per_s=100.0)
    >>> least_cost(Task({"a": 150}, input_bytes=150), [busy, free]).name  # moving takes 1.5 s
    'b'
    >>> least_cost(Task({"a": 300}, input_bytes=300), [busy, free])  # moving takes 3 s: wait
    """
    best = min(hosts, key=lambda host: (cost_s(task, host), -host.free_slots), default=None)
    return best if best is not None and best.free_slots >= task.slots else None
