"""Files that tasks made and that nobody declared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from intarsia.run.graph import Graph

_NAMED = 5
#: Files of new directories that are looked at; there may be millions, and one is enough to warn.
_LOOKED_AT = 10_000


class Undeclared:
    """Looks into the directories of declared files before a run, and again after it.

    What is in directories that are new there is found as well, but for `run_dir`, which is ours.
    New files of directories that no declared file lies in are not seen, nor what is written
    outside the workflow's directory.
    """

    def __init__(self, graph: Graph, directory: Path, run_dir: Path) -> None:
        directory = directory.absolute()
        declared = [
            directory / file
            for task in graph.tasks.values()
            for file in (*task.inputs, *task.outputs)
        ]
        self._directory = directory
        self._declared = {str(path) for path in declared}
        self._places = {directory, *(path.parent for path in declared)}
        self._files, directories = self._present()
        self._directories = directories | {str(run_dir.absolute())}

    def found(self) -> list[str]:
        """Return a warning about new files that no task declares, or nothing."""
        files, directories = self._present()
        inside = (file for place in directories - self._directories for file in _below(place))
        new = sorted((files | set(islice(inside, _LOOKED_AT))) - self._files - self._declared)
        if not new:
            return []
        names = ", ".join(os.path.relpath(path, self._directory) for path in new[:_NAMED])
        more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
        return [f"files that no task declares as its output were made: {names}{more}"]

    def _present(self) -> tuple[set[str], set[str]]:
        """Return the files and the directories that are in these places."""
        files, directories = set(), set()
        for place in self._places:
            if place.is_dir():
                with os.scandir(place) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            directories.add(entry.path)
                        elif entry.is_file():
                            files.add(entry.path)
        return files, directories


def _below(directory: str) -> Iterator[str]:
    for place, _, names in os.walk(directory):
        yield from (f"{place}/{name}" for name in names)
