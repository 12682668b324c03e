"""Files that tasks made and that nobody declared."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path

from intarsia.run.graph import Graph
from intarsia.run.mentioned import Mentioned, joined

_NAMED = 5
#: So many files of new directories are looked at, and so many that commands name: there may be
#: millions, and one is enough to warn.
_LOOKED_AT = 10_000


class Undeclared:
    """Looks for files before a run, and again after it.

    It looks into the directories of declared files, and for what commands name, wherever in the
    file system of the workflow's directory that is. What is in directories that are new there is
    found as well, but for `run_dir`, which is ours. Files of other users are never named: nobody
    here has made them. What programs write elsewhere without being told so is not seen.
    """

    def __init__(self, graph: Graph, directory: Path, run_dir: Path) -> None:
        self._directory = os.path.realpath(directory)
        self._device = directory.stat().st_dev
        self._run_dir = os.path.realpath(run_dir)
        tasks = graph.tasks.values()
        outputs = {joined(self._directory, file) for task in tasks for file in task.outputs}
        inputs = {joined(self._directory, file) for task in tasks for file in task.inputs}
        self._declared = inputs | outputs
        # Where only inputs lie outside, nobody expects the tasks to write.
        inside = {path for path in inputs if path.startswith(f"{self._directory}/")}
        self._places = {self._directory, *map(os.path.dirname, inside | outputs)}
        self._files, directories = self._present()
        self._directories = directories | {self._run_dir}
        self._mentioned = Mentioned(graph, self._directory, self._declared, _LOOKED_AT)

    def found(self, begun: Collection[str]) -> list[str]:
        """Return a warning about new files that no task declares, or nothing.

        `begun` are the tasks that were begun meanwhile.
        """
        files, directories = self._present()
        mentioned = self._mentioned.by(begun)
        places = {path for path in mentioned if _is_directory(path)}
        within = map(_below, places | (directories - self._directories))
        inside = islice(chain.from_iterable(within), _LOOKED_AT)
        candidates = {*files, *inside, *mentioned} - self._files - self._declared
        new = self._undeclared(sorted(candidates))
        if not new:
            return []
        names = ", ".join(map(self._shown, new[:_NAMED]))
        more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
        return [f"files that no task declares as its output were made: {names}{more}"]

    def _undeclared(self, paths: Iterable[str]) -> list[str]:
        """Those that are files of ours, and that have no other path by which they are declared."""
        ours = [path for path in paths if self._is_ours(path)]
        declared = _by_real_path(self._declared if ours else ())
        return [
            path
            for place, path in _by_real_path(ours).items()
            if place not in declared and not Path(place).is_relative_to(self._run_dir)
        ]

    def _is_ours(self, path: str) -> bool:
        """Whether a path is a file of this user on the file system of the workflow."""
        try:
            about = os.lstat(path)
        except (OSError, ValueError):
            return False
        is_here = (about.st_dev, about.st_uid) == (self._device, os.geteuid())
        return is_here and os.path.isfile(path)  # noqa: PTH113 - there may be thousands

    def _shown(self, path: str) -> str:
        if Path(path).is_relative_to(self._directory):
            return os.path.relpath(path, self._directory)
        return path

    def _present(self) -> tuple[set[str], set[str]]:
        """Return the files and the directories that are in these places."""
        files, directories = set(), set()
        for place in self._places:
            # Where nobody may look, or what went with a host, is none of these.
            with contextlib.suppress(OSError), os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        directories.add(entry.path)
                    elif entry.is_file():
                        files.add(entry.path)
        return files, directories


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


def _by_real_path(paths: Iterable[str]) -> dict[str, str]:
    """Return paths by what they are without symbolic links on the way to their names."""
    place_of = cache(os.path.realpath)
    found = {}
    for path in paths:
        place, name = os.path.split(path)
        found[f"{place_of(place)}/{name}"] = path
    return found


def _below(directory: str) -> Iterator[str]:
    for place, _, names in os.walk(directory):
        yield from (f"{place}/{name}" for name in names)
