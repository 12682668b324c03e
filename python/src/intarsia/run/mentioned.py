"""The files that a command of a task names, as far as its words say."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import product

from intarsia.run.graph import Graph, Task

# What is quoted is one word, and the words in it too: it may be a command for another shell.
_WORD = re.compile(r"""'([^']*)'|"([^"]*)"|([^\s;&|<>()'"`={}]+)""")


class Mentioned:
    """What the commands of a workflow name and is not there, before the run.

    A word counts from the workflow's directory, and from each directory that its command names:
    so does a program that is told where to go. At most `limit` names are looked at.
    """

    def __init__(self, graph: Graph, directory: str, declared: Collection[str], limit: int) -> None:
        self._directory = directory
        self._declared = declared
        self._device = os.stat(directory).st_dev  # noqa: PTH116 - as below
        self._is_place = cache(self._is_directory_here)
        named: dict[str, set[str]] = defaultdict(set)
        for path, task in self._named(graph):
            if len(named) == limit and path not in named:
                break
            named[path].add(task)
        self._tasks = {path: tasks for path, tasks in named.items() if not os.path.lexists(path)}

    def by(self, tasks: Collection[str]) -> list[str]:
        """Return the names in commands of these tasks, whether something has got them or not."""
        return [path for path, found in self._tasks.items() if not found.isdisjoint(tasks)]

    def _named(self, graph: Graph) -> Iterator[tuple[str, str]]:
        for task in graph.tasks.values():
            for path in self._paths(task):
                if path not in self._declared:
                    yield path, task.name

    def _paths(self, task: Task) -> Iterator[str]:
        words = list(dict.fromkeys(words_of(task.recipe or task.command)))
        paths = [joined(self._directory, word) for word in paths_in(words)]
        yield from paths
        places = [path for path in paths if self._is_place(path)]
        yield from (joined(place, word) for place, word in product(places, words))

    def _is_directory_here(self, path: str) -> bool:
        """Whether a path is a directory of the file system that the workflow's directory is in."""
        is_directory = os.path.isdir(path)  # noqa: PTH112 - there may be thousands
        return is_directory and os.stat(path).st_dev == self._device  # noqa: PTH116


def joined(place: str | os.PathLike[str], word: str) -> str:
    """Return where a name leads from a directory, without the `..` in it.

    >>> joined("/mnt/work", "../x"), joined("/mnt/work", "/y")
    ('/mnt/x', '/y')
    """
    return os.path.normpath(os.path.join(place, word))  # noqa: PTH118


def words_of(command: str) -> Iterator[str]:
    """Return the words of a command; what the shell would expand stays as it is.

    >>> list(words_of("sort 'a b' --output=../c >d"))
    ['sort', 'a b', 'a', 'b', '--output', '../c', 'd']
    """
    for single, double, plain in _WORD.findall(command):
        quoted = single or double
        if quoted:
            yield quoted
            inner = list(words_of(quoted))
            yield from () if inner == [quoted] else inner
        elif plain:
            yield plain


def paths_in(words: Iterable[str]) -> list[str]:
    """Return those of the words that say in which directory they are.

    >>> paths_in(["cd", "..", "a", "b/c", "-I/d"])
    ['..', 'b/c', '-I/d']
    """
    return [word for word in words if "/" in word or word == os.pardir]
