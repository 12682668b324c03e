"""The policy that counts local bytes, and the one that knows nothing of data."""

from __future__ import annotations

from collections.abc import Sequence

from intarsia.schedule.host import Host
from intarsia.schedule.task import Task, with_room


def blind(task: Task, hosts: Sequence[Host]) -> Host | None:
    """Return the host with most free slots, wherever the input lies; the first of equal ones."""
    return max(with_room(task, hosts), key=lambda host: host.free_slots, default=None)


def most_local(task: Task, hosts: Sequence[Host]) -> Host | None:
    """Return the host with room that holds most of the input; of equal ones the freest.

    It never waits: when the hosts that hold the input are busy, the task runs elsewhere.

    >>> hosts = [Host("a"), Host("b"), Host("c", free_slots=0)]
    >>> most_local(Task({"b": 10, "c": 90}, input_bytes=100), hosts).name
    'b'
    """

    def rank(host: Host) -> tuple[int, int]:
        return task.local_bytes(host.name), host.free_slots

    return max(with_room(task, hosts), key=rank, default=None)
