"""Hints that a run sets as it goes on, as more becomes known of how large its files are."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from intarsia.learn.observed import Role
from intarsia.run.hints import Derivation, Derived, joined, says_where
from intarsia.tag import hints_on, tag

#: By which readers take a file from each other; it counts from when it is opened next, so that a
#: file can have it once it is known how large it is.
BROADCAST = {"pattern": "broadcast"}


class Inheritance:
    """Says which hints new files would have from their directories, that are below another one."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._root = os.fspath(directory)
        self._known: dict[str, Mapping[str, str]] = {}

    def __call__(self, file: str) -> Mapping[str, str]:
        """Return them for a file, relative to the directory or absolute."""
        return self._of(os.path.dirname(os.path.join(self._root, file)))  # noqa: PTH118, PTH120

    def _of(self, directory: str) -> Mapping[str, str]:
        if directory not in self._known:
            self._known[directory] = self._read(directory)
        return self._known[directory]

    def _read(self, directory: str) -> Mapping[str, str]:
        try:
            return hints_on(directory or ".")
        except FileNotFoundError:
            # It is still to be made, and will have the hints of the one that it is in.
            return self._of(os.path.dirname(directory))  # noqa: PTH120
        except OSError:
            return {}


class Tags:
    """The hints of a run's files: what is chosen before it, and what is derived while it goes on.

    `hints` are by file, and get what is derived later. Nothing is derived for files of rules that
    are `taught`, nor for those that have a place or a pattern. With `keeps_patterns` files that
    have one from their directory, or by a rule, keep it. `say` hears once of each rule why its
    files get a hint, or none.
    """

    def __init__(
        self,
        derivation: Derivation,
        hints: dict[str, dict[str, str]],
        directory: Path,
        *,
        taught: Container[Role] = (),
        keeps_patterns: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.derivation = derivation
        self._hints = hints
        self._directory = directory
        self._taught = taught
        self._keeps_patterns = keeps_patterns
        self._say = say
        self._said: set[tuple[Role, str]] = set()

    def before(self, files: Iterable[str]) -> None:
        """Derive hints for files that are to be made now."""
        for file in files:
            if self._is_open(file):
                self._add(file, self._derive(file).hints)

    def made(self, size_bytes: Mapping[str, int]) -> list[str]:
        """Files are there, and so large: have those spread that many tasks read.

        Returns what was wrong with a hint.
        """
        news = {file: size for file, size in size_bytes.items() if self._is_open(file)}
        for file, size in size_bytes.items():
            self.derivation.made(file, size)
        wanted = [file for file in news if self._derive(file).hints == BROADCAST]
        if not wanted:
            return []
        paths = [str(self._directory / file) for file in wanted]
        problems = spread(paths) if self._keeps_patterns else tag(paths, BROADCAST)
        for file in wanted:
            self._add(file, BROADCAST)
        return [f"{path}: {error.strerror}: {BROADCAST}" for path, error in problems.items()]

    def _is_open(self, file: str) -> bool:
        """Whether it is left to the graph what hints a file gets."""
        return not says_where(self._hints.get(file, {})) and (
            self.derivation.role(file) not in self._taught
        )

    def _add(self, file: str, hints: Mapping[str, str]) -> None:
        if hints:
            self._hints[file] = joined(hints, self._hints.get(file, {}))

    def _derive(self, file: str) -> Derived:
        found = self.derivation.of(file)
        role = self.derivation.role(file)
        if (role, found.why) not in self._said:
            self._said.add((role, found.why))
            self._say(f"{role}: {hints_text(found.hints)}: {found.why}")
        return found


def spread(paths: Iterable[str]) -> dict[str, OSError]:
    """Have readers take files from each other, where nobody has said how they are read.

    Returns what went wrong, by path.
    """
    return tag([path for path in paths if not _has_pattern(path)], BROADCAST)


def _has_pattern(path: str) -> bool:
    with suppress(OSError):
        return "pattern" in hints_on(path)
    return False


def new_log(path: Path) -> Callable[[str], None]:
    """Begin a log anew, and return what adds lines to it; who cannot write it goes on without."""
    with suppress(OSError):
        path.unlink(missing_ok=True)

    def say(text: str) -> None:
        with suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    return say


def hints_text(hints: Mapping[str, str]) -> str:
    """Return hints for a person.

    >>> hints_text({"place": "local", "tier": "ssd"}), hints_text({})
    ('place=local tier=ssd', 'no hint')
    """
    return " ".join(f"{name}={value}" for name, value in hints.items()) or "no hint"
