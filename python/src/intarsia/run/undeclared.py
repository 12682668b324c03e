"""Files that tasks made and that nobody declared."""

from __future__ import annotations

import os
from pathlib import Path

from intarsia.run.graph import Graph

_NAMED = 5


class Undeclared:
    """Looks into the directories of declared files before a run, and again after it."""

    def __init__(self, graph: Graph, directory: Path) -> None:
        declared = [
            directory / file
            for task in graph.tasks.values()
            for file in (*task.inputs, *task.outputs)
        ]
        self._directory = directory
        self._declared = {str(path) for path in declared}
        self._places = {directory, *(path.parent for path in declared)}
        self._before = self._present()

    def found(self) -> list[str]:
        """Return a warning about new files that no task declares, or nothing."""
        new = sorted(self._present() - self._before - self._declared)
        if not new:
            return []
        names = ", ".join(os.path.relpath(path, self._directory) for path in new[:_NAMED])
        more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
        return [f"files that no task declares as its output were made: {names}{more}"]

    def _present(self) -> set[str]:
        found = set()
        for place in self._places:
            if place.is_dir():
                with os.scandir(place) as entries:
                    found |= {entry.path for entry in entries if entry.is_file()}
        return found
