"""Copies that are made ahead in a run: hosts read what a waiting task needs, and keep it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from intarsia.locate import Located, Locations
from intarsia.run.events import Crew, Fetched
from intarsia.run.kept import Kept
from intarsia.schedule import Copy, TaskQueue, copies_ahead


@dataclass(frozen=True, slots=True)
class Budget:
    """What copies ahead may take: bytes `total_bytes` in all, none with 0.

    `host_bytes`: how much of it may lie on each host for tasks that have not begun.
    `link_bytes_per_s`: how much of each host's link copies take on average, whether they come or
    go. None is no bound.
    """

    total_bytes: int = 0
    host_bytes: int | None = None
    link_bytes_per_s: float | None = None


class Ahead:
    """What was read ahead, and what is being, within a budget."""

    def __init__(self, crew: Crew, budget: Budget) -> None:
        self._crew = crew
        self._budget = budget
        #: What hosts have read, for tasks or ahead of them.
        self.kept = Kept()
        self._taking: dict[str, str] = {}
        # By task and host: bytes that the host holds or takes for it.
        self._meant_for: dict[tuple[str, str], int] = {}
        # When the links of hosts have carried their copies, at the rate of the budget.
        self._until_s: dict[str, float] = {}
        self.copied_bytes = 0

    @property
    def taking(self) -> Mapping[str, str]:
        """Hosts that take copies now, with the task that these are for."""
        return self._taking

    def known(self, found: Locations, task: str) -> Locations:
        """Return where the input of a task lies, with copies made ahead, and what comes for it."""
        coming = {host for host, key in self._taking.items() if key == task}
        return self.kept.known(found, coming)

    def begin(self, queue: TaskQueue[str], inputs: dict[str, Locations], now_s: float) -> list[str]:
        """Have hosts read ahead for tasks that wait; `inputs` says where theirs lie.

        Returns the tasks for which they do.
        """
        begun: list[str] = []
        # One by one, as each takes from the budget of its host and of those that it comes from.
        while copy := self._next(queue, inputs, now_s):
            files = [
                file
                for file in self.known(inputs[copy.key], copy.key).files
                if file.bytes_by_host and file.bytes_by_host.get(copy.host) != file.size_bytes
            ]
            self._taking[copy.host] = copy.key
            self._meant_for[copy.key, copy.host] = copy.size_bytes
            self.copied_bytes += copy.size_bytes
            self._charge(copy, files, now_s)
            self._crew.fetch(copy.host, [file.path for file in files])
            begun.append(copy.key)
        return begun

    def ended(self, event: Fetched) -> None:
        """Take note of what a host has read."""
        self._taking.pop(event.host, None)
        if event.is_whole:
            self.kept.read(event.paths, event.host)

    def started(self, task: str) -> None:
        """Take note that a task begins: what was copied for it has served its purpose."""
        for key in [key for key in self._meant_for if key[0] == task]:
            del self._meant_for[key]

    def forget(self, paths: Iterable[str], host: str | None = None) -> None:
        """Forget copies of files that are made again, or all that a host has."""
        self.kept.forget(paths, host)
        self._taking.pop(host or "", None)
        for key in [key for key in self._meant_for if key[1] == host]:
            del self._meant_for[key]

    def _next(
        self, queue: TaskQueue[str], inputs: dict[str, Locations], now_s: float
    ) -> Copy[str] | None:
        left_bytes = self._budget.total_bytes - self.copied_bytes
        if left_bytes <= 0:
            return None
        hosts = queue.hosts(now_s)
        busy = {name for name, until_s in self._until_s.items() if until_s > now_s}
        waiting = [
            (key, task)
            for key, task in queue.waiting(now_s)
            if busy.isdisjoint(_sources(inputs[key].files))
        ]
        space = None
        if self._budget.host_bytes is not None:
            held: Counter[str] = Counter()
            for (_, name), size_bytes in self._meant_for.items():
                held[name] += size_bytes
            space = {host.name: self._budget.host_bytes - held[host.name] for host in hosts}
        chosen = copies_ahead(
            waiting,
            hosts,
            taking=busy | self._taking.keys(),
            under_way=self._taking.values(),
            room_bytes=left_bytes,
            space_bytes=space,
        )
        return chosen[0] if chosen else None

    def _charge(self, copy: Copy[str], files: Iterable[Located], now_s: float) -> None:
        """Have the links of a copy's hosts carry no more until it would be through."""
        rate = self._budget.link_bytes_per_s
        if rate is None:
            return
        moved: Counter[str] = Counter({copy.host: copy.size_bytes})
        for file in files:
            moved[file.hosts[0]] += file.size_bytes
        for name, size_bytes in moved.items():
            self._until_s[name] = now_s + size_bytes / rate


def _sources(files: Iterable[Located]) -> set[str]:
    """The hosts that files come from: of each the one that holds most of it."""
    return {file.hosts[0] for file in files if file.hosts}
