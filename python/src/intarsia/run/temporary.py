"""Files that go when their last reader is done, so that a long workflow needs little space."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from intarsia.run.graph import Graph

# `lifetime=reads:N`: no more than N tasks read the file.
_READS = re.compile(r"reads:([1-9][0-9]*)")


def temporary_files(graph: Graph, hints: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
    """Return the files of a workflow that may go once all tasks that read them are done.

    Those are the ones that their task calls `temp`, and those whose hint `lifetime` is `scratch`
    or `reads:N` with N no greater than the number of tasks that read them: of more readers the
    workflow knows nothing. What no task reads is a result, and stays.
    """
    return frozenset(
        file
        for file, maker in graph.producer.items()
        if (readers := len(graph.consumers.get(file, ())))
        and (
            file in graph.tasks[maker].temp
            or _ends_after(hints.get(file, graph.tasks[maker].hints).get("lifetime", ""), readers)
        )
    )


def for_store(hints: Mapping[str, str]) -> dict[str, str]:
    """Leave out the hint `lifetime=reads:N`: the store counts openings, and a run counts tasks.

    >>> for_store({"lifetime": "reads:2", "tier": "memory"})
    {'tier': 'memory'}
    """
    counted = _READS.fullmatch(hints.get("lifetime", "")) is not None
    return {name: value for name, value in hints.items() if not counted or name != "lifetime"}


def _ends_after(lifetime: str, readers: int) -> bool:
    found = _READS.fullmatch(lifetime)
    return lifetime == "scratch" or (found is not None and int(found[1]) <= readers)


class Temporary:
    """Removes the temporary files of a run in time."""

    def __init__(self, graph: Graph, files: Iterable[str], directory: Path) -> None:
        self._graph = graph
        self._files = frozenset(files)
        self._directory = directory
        self.removed: list[str] = []
        self.problems: list[str] = []

    def begin(self, is_done: Callable[[str], bool]) -> None:
        """Remove what an earlier run, which was ended, did not come to remove."""
        self._remove(self._files, is_done)

    def done(self, task: str, is_done: Callable[[str], bool]) -> None:
        """Remove what this task was the last to read."""
        self._remove(self._files.intersection(self._graph.tasks[task].inputs), is_done)

    def _remove(self, files: Iterable[str], is_done: Callable[[str], bool]) -> None:
        for file in sorted(files):
            # Its maker, when it is made again, makes it for a reader that is not done.
            if all(map(is_done, (self._graph.producer[file], *self._graph.consumers[file]))):
                try:
                    with contextlib.suppress(FileNotFoundError):
                        (self._directory / file).unlink()
                        self.removed.append(file)
                except OSError as error:
                    self.problems.append(f"{file} is not needed any more, and stays: {error}")
