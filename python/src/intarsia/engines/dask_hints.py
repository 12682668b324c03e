"""Has files spread that many tasks of Dask read: tasks that wait, and have their path in common."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from intarsia.locate import Locations
from intarsia.run.hints import Cluster
from intarsia.run.tags import BROADCAST, spread

_LOG = logging.getLogger("distributed.intarsia")


class Readers:
    """The tasks that are not done, by the files that they name.

    The task that makes a file names it too, but is done before a task that reads it is ready. A
    file is told once that it is to be spread, and by then its size is known. `tell` hears of it.
    """

    def __init__(self, link_bytes_per_s: float, tell: Callable[[dict[str, Any]], None]) -> None:
        self._link_bytes_per_s = link_bytes_per_s
        self._tell = tell
        self._paths: dict[Hashable, Sequence[str]] = {}
        self._tasks: defaultdict[str, set[Hashable]] = defaultdict(set)
        self._spread: set[str] = set()

    def add(self, key: Hashable, paths: Sequence[str]) -> None:
        """Take note of a task that is to run, and of the files that it names."""
        self.discard(key)
        self._paths[key] = paths
        for path in paths:
            self._tasks[path].add(key)

    def discard(self, key: Hashable) -> None:
        """Forget a task that is done."""
        for path in self._paths.pop(key, ()):
            self._tasks[path].discard(key)
            if not self._tasks[path]:
                del self._tasks[path]
                # It may be made anew.
                self._spread.discard(path)

    def begin(self, found: Locations, hosts: int, dependents: AbstractSet[Hashable]) -> None:
        """A task is about to run on one of `hosts`, and names what is `found`.

        A file that its `dependents` name too is one that it makes, if it is there or not.
        """
        cluster = Cluster.linked(hosts, self._link_bytes_per_s)
        for file in found.files:
            tasks = self._tasks.get(file.path, set())
            if file.problem or file.path in self._spread or tasks & dependents:
                continue
            if cluster.gains_by_spreading(file.size_bytes, len(tasks)):
                self._spread.add(file.path)
                self._tag(file.path, len(tasks))

    def _tag(self, path: str, readers: int) -> None:
        problem = spread([path]).get(path)
        why = f"{readers} tasks name it" if problem is None else f"refused: {problem.strerror}"
        _LOG.info("%s: pattern=broadcast: %s", path, why)
        self._tell({"path": path, **BROADCAST, "why": why})
