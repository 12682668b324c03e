"""Copies that are made ahead in a run: hosts read what a waiting task needs, and keep it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from intarsia.locate import Located, Locations
from intarsia.run.events import Crew, Fetched
from intarsia.schedule import TaskQueue, copies_ahead


class Ahead:
    """What was read ahead, and what is being; at most `room_bytes` in all."""

    def __init__(self, crew: Crew, room_bytes: int) -> None:
        self._crew = crew
        self._left_bytes = room_bytes
        self._kept: dict[str, set[str]] = defaultdict(set)
        self._taking: dict[str, str] = {}
        self.copied_bytes = 0

    def known(self, found: Locations, task: str) -> Locations:
        """Return where the input of a task lies, with copies made ahead, and what comes for it."""
        coming = {host for host, key in self._taking.items() if key == task}
        return Locations(tuple(self._with_copies(file, coming) for file in found.files))

    def begin(self, queue: TaskQueue[str], inputs: dict[str, Locations], now_s: float) -> list[str]:
        """Have hosts read ahead for tasks that wait; `inputs` says where theirs lie.

        Returns the tasks for which they do.
        """
        if not self._left_bytes:
            return []
        chosen = copies_ahead(
            queue.waiting(now_s),
            queue.hosts(now_s),
            taking=self._taking.keys(),
            under_way=self._taking.values(),
            room_bytes=self._left_bytes,
        )
        for copy in chosen:
            paths = [
                file.path
                for file in self.known(inputs[copy.key], copy.key).files
                if file.bytes_by_host and file.bytes_by_host.get(copy.host) != file.size_bytes
            ]
            self._taking[copy.host] = copy.key
            self._left_bytes -= copy.size_bytes
            self.copied_bytes += copy.size_bytes
            self._crew.fetch(copy.host, paths)
        return [copy.key for copy in chosen]

    def ended(self, event: Fetched) -> None:
        """Take note of what a host has read."""
        self._taking.pop(event.host, None)
        if event.is_whole:
            for path in event.paths:
                self._kept[path].add(event.host)

    def forget(self, paths: Iterable[str], host: str | None = None) -> None:
        """Forget copies of files that are made again, or all that a host has."""
        for path in paths:
            self._kept.pop(path, None)
        for hosts in self._kept.values():
            hosts.discard(host or "")
        self._taking.pop(host or "", None)

    def _with_copies(self, file: Located, coming: set[str]) -> Located:
        hosts = self._kept.get(file.path, set()) | coming
        if not hosts or not file.bytes_by_host:
            return file
        held = dict(file.bytes_by_host) | dict.fromkeys(sorted(hosts), file.size_bytes)
        return replace(file, bytes_by_host=held)
