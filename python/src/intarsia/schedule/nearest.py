"""Which of the tasks that are ready a free host had best take."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from intarsia.schedule.task import Task

K = TypeVar("K", bound=Hashable)

# Share and bytes are negative, as the least entry comes first: the largest share, of equal ones
# most bytes, then who came first.
_Entry = tuple[float, int, int, K]


class Nearest(Generic[K]):
    """Tasks by the hosts that have their input, those first of which a host has the largest share.

    What later tasks read beside what a task makes counts as its input does. Adding and taking a
    task costs the logarithm of their number for each host that has some of it; a task of which more
    is known keeps its turn, and costs as much only for hosts where that changes something.
    """

    def __init__(self) -> None:
        self._by_host: defaultdict[str, list[_Entry[K]]] = defaultdict(list)
        self._turns: dict[K, int] = {}
        # By task and host what counts, of tasks that are here.
        self._counts: dict[K, dict[str, _Entry[K]]] = {}
        self._taken: list[tuple[str, _Entry[K]]] = []
        self._turn = 0

    def add(self, key: K, task: Task) -> None:
        """Take a task in, or what has become of its input."""
        if key not in self._turns:
            self._turn += 1
            self._turns[key] = self._turn
        turn, before = self._turns[key], self._counts.get(key, {})
        whole = task.input_bytes + task.affinity_bytes
        counts: dict[str, _Entry[K]] = {}
        for host in task.bytes_by_host.keys() | task.affinity_by_host.keys():
            if held := task.near_bytes(host):
                counts[host] = (-held / max(held, whole), -held, turn, key)
                if before.get(host) != counts[host]:
                    heapq.heappush(self._by_host[host], counts[host])
        self._counts[key] = counts

    def discard(self, key: K) -> None:
        """Forget a task."""
        self._turns.pop(key, None)
        self._counts.pop(key, None)

    def take(self, hosts: Iterable[str], is_wanted: Callable[[K], bool]) -> K | None:
        """Return the task of which one of `hosts` has the largest share; the next call another."""
        tops = [(top, host) for host in hosts if (top := self._top(host, is_wanted))]
        if not tops:
            return None
        (entry, host) = min(tops, key=lambda top: top[0][:3])
        self._take(host)
        return entry[3]

    def put_back(self) -> None:
        """Offer again what was taken and is still here."""
        for host, entry in self._taken:
            if self._is_valid(host, entry):
                heapq.heappush(self._by_host[host], entry)
        self._taken.clear()

    def _top(self, host: str, is_wanted: Callable[[K], bool]) -> _Entry[K] | None:
        while heap := self._by_host.get(host):
            if not self._is_valid(host, heap[0]):
                heapq.heappop(heap)
            elif not is_wanted(heap[0][3]):
                self._take(host)
            else:
                return heap[0]
        return None

    def _is_valid(self, host: str, entry: _Entry[K]) -> bool:
        return self._counts.get(entry[3], {}).get(host) == entry

    def _take(self, host: str) -> None:
        self._taken.append((host, heapq.heappop(self._by_host[host])))
