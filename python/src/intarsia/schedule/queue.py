"""Tasks that are ready, and the slots of the hosts that are to run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from intarsia.schedule.host import LINK_BYTES_PER_S, Host
from intarsia.schedule.nearest import Nearest
from intarsia.schedule.task import Policy, Task

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Start(Generic[K]):
    """A task that is to begin now, on a host."""

    key: K
    host: str
    task: Task


@dataclass(frozen=True, slots=True)
class _Run:
    """A task that runs: where, since when, and how long it reads `source`'s disk, if it does."""

    host: str
    slots: int
    began_s: float
    source: str | None = None
    moves_s: float = 0.0


class TaskQueue(Generic[K]):
    """Binds tasks to hosts as slots come free, by a policy.

    It knows no clock, no threads and no processes: the caller says what time it is, in seconds
    of any clock that only goes forward, and runs what `start` returns.

    A host that is free takes the task of whose input it has the largest share, if the policy
    agrees; tasks of which no free host has anything go in the order in which they came, those first
    that have least to do with what other hosts hold. With `in_order` all go in the order in which
    they came: then tasks choose hosts and hosts never tasks, so that where more tasks are ready
    than slots are free the data decide little.

    What a policy is told of waiting counts the tasks that were left to wait for the same host, and
    how long tasks take: as those that have ended, but for what moved; what has run for longer is
    taken to run for as long again. What it is told of links is what is left of the one of the host
    that has most of the input, beside the tasks that read from there.
    """

    def __init__(
        self,
        slots_by_host: Mapping[str, int],
        policy: Policy,
        *,
        link_bytes_per_s: float = LINK_BYTES_PER_S,
        in_order: bool = False,
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
        self._nearest: Nearest[K] | None = None if in_order else Nearest()
        self._running: dict[K, _Run] = {}
        self._mean_s = 0.0

    def __len__(self) -> int:
        """How many tasks wait for a host."""
        return len(self._ready)

    def add(self, key: K, task: Task, now_s: float) -> None:
        """Take a task that is ready; one too large for every host gets all slots of one."""
        self._keep(key, task, now_s)

    def set_host(self, host: str, slots: int) -> None:
        """Let a host have so many slots from now on: a new one, or one whose workers changed."""
        self._free[host] = self._free.get(host, 0) + slots - self._slots.get(host, 0)
        self._slots[host] = slots

    def remove_host(self, host: str) -> None:
        """Begin nothing more on a host; what runs there is still to be finished."""
        self._slots.pop(host, None)
        self._free.pop(host, None)
        for key, run in self._running.items():
            if run.host == host:
                self._running[key] = replace(run, host="")

    def update(self, key: K, task: Task) -> None:
        """Tell where the input of a task that waits lies now; it has waited as long as before."""
        if key in self._ready:
            self._keep(key, task, self._ready[key][1])

    def waiting(self, now_s: float) -> list[tuple[K, Task]]:
        """Return the tasks that wait for a host, with how long they have."""
        return [
            (key, replace(task, waited_s=now_s - since_s))
            for key, (task, since_s) in self._ready.items()
        ]

    def hosts(self, now_s: float) -> list[Host]:
        """Return all hosts as a task of one slot sees them."""
        return self._hosts(Task(), now_s, Counter())

    def discard(self, key: K) -> None:
        """Forget a task that has not begun."""
        self._forget(key)

    def start(self, now_s: float, at_most: int | None = None) -> list[Start[K]]:
        """Return the tasks that begin now; those whose input lies on a host come first."""
        begun: list[Start[K]] = []
        most = max(self._slots.values(), default=0)
        left: Counter[str] = Counter()
        for key in self._candidates():
            task, since_s = self._ready[key]
            waiting = replace(task, slots=min(task.slots, most), waited_s=now_s - since_s)
            host = self._policy(waiting, self._hosts(waiting, now_s, left))
            if host is None:
                if waiting.nearest is not None:
                    left[waiting.nearest] += waiting.slots
                continue
            self._forget(key)
            self._free[host.name] -= waiting.slots
            self._running[key] = _run(waiting, host, now_s)
            begun.append(Start(key, host.name, waiting))
            if len(begun) == at_most:
                break
        if self._nearest is not None:
            self._nearest.put_back()
        return begun

    def _candidates(self) -> Iterator[K]:
        """Yield each task that waits at most once, as long as a slot is free."""
        seen: set[K] = set()
        while self._nearest is not None:
            key = self._nearest.take(self._free_hosts(), lambda key: key not in seen)
            if key is None:
                break
            seen.add(key)
            yield key
        if not self._free_hosts():
            return
        rest = [
            (not task.bytes_by_host, task.affinity_bytes, key)
            for key, (task, _) in self._ready.items()
        ]
        for _, _, key in sorted(rest, key=lambda item: item[:2]):
            if not self._free_hosts():
                return
            if key not in seen:
                yield key

    def _free_hosts(self) -> list[str]:
        return [host for host, free in self._free.items() if free > 0]

    def _keep(self, key: K, task: Task, since_s: float) -> None:
        self._ready[key] = (task, since_s)
        if self._nearest is not None:
            self._nearest.add(key, task)

    def _forget(self, key: K) -> None:
        if self._ready.pop(key, None) is not None and self._nearest is not None:
            self._nearest.discard(key)

    def finish(self, key: K, now_s: float) -> None:
        """Give back the slots of a task that has ended."""
        run = self._running.pop(key)
        if run.host in self._free:
            self._free[run.host] += run.slots
        took_s = max(0.0, now_s - run.began_s - run.moves_s)
        # A mean that follows the stages of a workflow.
        self._mean_s = took_s if not self._mean_s else 0.75 * self._mean_s + 0.25 * took_s

    def _hosts(self, task: Task, now_s: float, left: Counter[str]) -> list[Host]:
        """Return the hosts that could ever run a task."""
        source = task.nearest
        readers = sum(run.source == source for run in self._running.values()) if source else 0
        rate = self._link_bytes_per_s / (1 + readers)
        hosts = []
        for name, has in self._slots.items():
            if has < task.slots:
                continue
            free, wait_s = self._free[name], 0.0
            if free < task.slots:
                wait_s = self._wait_s(name, now_s, left[name] / max(1, has))
            hosts.append(Host(name, free, wait_s, rate))
        return hosts

    def _wait_s(self, name: str, now_s: float, turns: float) -> float:
        """How long a host is busy with what runs there, and with so many tasks a slot after it."""
        began = [run.began_s for run in self._running.values() if run.host == name]
        ran_s = now_s - min(began, default=now_s)
        remains_s = self._mean_s - ran_s if ran_s < self._mean_s else ran_s
        return remains_s + turns * max(self._mean_s, ran_s)


def _run(task: Task, host: Host, now_s: float) -> _Run:
    remote_bytes = task.remote_bytes(host.name)
    if not remote_bytes or task.nearest in (None, host.name):
        return _Run(host.name, task.slots, now_s)
    moves_s = remote_bytes / host.link_bytes_per_s
    return _Run(host.name, task.slots, now_s, task.nearest, moves_s)
