"""Tasks that are ready, and the slots of the hosts that are to run them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from intarsia.schedule.host import LINK_BYTES_PER_S, Host
from intarsia.schedule.task import Policy, Task

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Start(Generic[K]):
    """A task that is to begin now, on a host."""

    key: K
    host: str
    task: Task


class TaskQueue(Generic[K]):
    """Binds tasks to hosts as slots come free, by a policy.

    It knows no clock, no threads and no processes: the caller says what time it is, in seconds
    of any clock that only goes forward, and runs what `start` returns.
    """

    def __init__(
        self,
        slots_by_host: Mapping[str, int],
        policy: Policy,
        *,
        link_bytes_per_s: float = LINK_BYTES_PER_S,
    ) -> None:
        if not slots_by_host:
            raise ValueError("no hosts are given to run tasks on")
        for host, slots in slots_by_host.items():
            if slots < 1:
                raise ValueError(f"host {host} has {slots} slots; give it 1 or more")
        self._slots = dict(slots_by_host)
        self._free = dict(slots_by_host)
        self._policy = policy
        self._link_bytes_per_s = link_bytes_per_s
        self._ready: dict[K, tuple[Task, float]] = {}
        self._running: dict[K, tuple[str, int, float]] = {}
        self._mean_s = 0.0

    def __len__(self) -> int:
        """How many tasks wait for a host."""
        return len(self._ready)

    def add(self, key: K, task: Task, now_s: float) -> None:
        """Take a task that is ready; one too large for every host gets all slots of one."""
        self._ready[key] = (task, now_s)

    def set_host(self, host: str, slots: int) -> None:
        """Let a host have so many slots from now on: a new one, or one whose workers changed."""
        self._free[host] = self._free.get(host, 0) + slots - self._slots.get(host, 0)
        self._slots[host] = slots

    def remove_host(self, host: str) -> None:
        """Begin nothing more on a host; what runs there is still to be finished."""
        self._slots.pop(host, None)
        self._free.pop(host, None)
        for key, (where, slots, began_s) in self._running.items():
            if where == host:
                self._running[key] = ("", slots, began_s)

    def update(self, key: K, task: Task) -> None:
        """Tell where the input of a task that waits lies now; it has waited as long as before."""
        if key in self._ready:
            self._ready[key] = (task, self._ready[key][1])

    def waiting(self, now_s: float) -> list[tuple[K, Task]]:
        """Return the tasks that wait for a host, with how long they have."""
        return [
            (key, replace(task, waited_s=now_s - since_s))
            for key, (task, since_s) in self._ready.items()
        ]

    def hosts(self, now_s: float) -> list[Host]:
        """Return all hosts as a task of one slot sees them."""
        return self._hosts(1, now_s)

    def discard(self, key: K) -> None:
        """Forget a task that has not begun."""
        self._ready.pop(key, None)

    def start(self, now_s: float) -> list[Start[K]]:
        """Return the tasks that begin now; those whose input lies on a host choose first."""
        begun = []
        in_order = sorted(self._ready.items(), key=lambda item: not item[1][0].bytes_by_host)
        most = max(self._slots.values(), default=0)
        for key, (task, since_s) in in_order:
            if not any(free > 0 for free in self._free.values()):
                break
            waiting = replace(task, slots=min(task.slots, most), waited_s=now_s - since_s)
            host = self._policy(waiting, self._hosts(waiting.slots, now_s))
            if host is None:
                continue
            del self._ready[key]
            self._free[host.name] -= waiting.slots
            self._running[key] = (host.name, waiting.slots, now_s)
            begun.append(Start(key, host.name, waiting))
        return begun

    def finish(self, key: K, now_s: float) -> None:
        """Give back the slots of a task that has ended."""
        host, slots, began_s = self._running.pop(key)
        if host in self._free:
            self._free[host] += slots
        took_s = now_s - began_s
        # A mean that follows the stages of a workflow.
        self._mean_s = took_s if not self._mean_s else 0.75 * self._mean_s + 0.25 * took_s

    def _hosts(self, slots: int, now_s: float) -> list[Host]:
        """Return the hosts that could ever run a task of so many slots."""
        names = [name for name, has in self._slots.items() if has >= slots]
        return [self._host(name, slots, now_s) for name in names]

    def _host(self, name: str, slots: int, now_s: float) -> Host:
        free, wait_s = self._free[name], 0.0
        if free < slots:
            began = [began_s for host, _, began_s in self._running.values() if host == name]
            first = min(began, default=now_s)
            wait_s = max(0.0, first + self._mean_s - now_s)
        return Host(name, free, wait_s, self._link_bytes_per_s)
