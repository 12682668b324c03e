"""Files that tasks made and that nobody declared."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from intarsia.run.graph import Graph
from intarsia.run.mentioned import Mentioned

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
        directory = directory.absolute()
        self._directory = str(directory)
        self._device = directory.stat().st_dev
        self._run_dir = os.path.realpath(run_dir)
        tasks = graph.tasks.values()
        outputs = [_joined(directory, file) for task in tasks for file in task.outputs]
        inputs = [_joined(directory, file) for task in tasks for file in task.inputs]
        self._declared = {str(path) for path in (*inputs, *outputs)}
        # Where only inputs lie outside, nobody expects the tasks to write.
        inside = [path for path in inputs if path.is_relative_to(directory)]
        self._places = {directory, *(path.parent for path in (*inside, *outputs))}
        self._files, directories = self._present()
        self._directories = directories | {str(run_dir.absolute())}
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
        declared = set(map(_real, self._declared)) if ours else set()
        by_place = {_real(path): path for path in ours}
        return [
            path
            for place, path in by_place.items()
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


def _joined(directory: Path, file: str) -> Path:
    return Path(os.path.normpath(directory / file))


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


def _real(path: str) -> str:
    """The path of a name without symbolic links on the way to it."""
    place, name = os.path.split(path)
    return f"{os.path.realpath(place)}/{name}"


def _below(directory: str) -> Iterator[str]:
    for place, _, names in os.walk(directory):
        yield from (f"{place}/{name}" for name in names)
