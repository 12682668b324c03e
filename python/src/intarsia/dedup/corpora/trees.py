"""Generated backups of files: a tree of directories that lives on from one full to the next.

Files are edited in place, inserted into, appended to, replaced, renamed, copied, made and deleted;
some go back to what they were. The directories differ in what happens in them, as home
directories, mail stores, builds and databases do. All follows from a seed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from intarsia.dedup.chunkers import Chunker
from intarsia.dedup.errors import DedupError
from intarsia.dedup.trace import Trace, TraceBuilder


@dataclass(frozen=True)
class Habits:
    """What happens to a file of a directory from one full backup to the next; chances."""

    edit: float = 0.0
    """Some 1 % of its bytes are overwritten, in a few places."""
    insert: float = 0.0
    """A few hundred bytes come in somewhere; all that follows moves."""
    append: float = 0.0
    """It grows by a tenth."""
    replace: float = 0.0
    """All of it is new."""
    revert: float = 0.0
    """It is again what it was two fulls ago."""
    copy: float = 0.0
    """A copy of it appears beside it."""
    rename: float = 0.0
    delete: float = 0.0
    away: float = 0.0
    """It is not in this backup, but it lives on: a laptop that is off, a file that is locked."""


@dataclass(frozen=True)
class Directory:
    """A directory: how many files, of which mean size in bytes, and what happens there."""

    files: int
    mean_bytes: int
    habits: Habits
    copies: int = 1
    """Of each file from the start: an attachment in several mailboxes, a library in several
    checkouts."""


Tree = dict[str, Directory]

TREES: dict[str, Tree] = {
    "desktop": {
        "documents": Directory(300, 12_000, Habits(edit=0.15, insert=0.1, append=0.05, copy=0.02)),
        "photos": Directory(100, 25_000, Habits(rename=0.05), copies=2),
        "cache": Directory(120, 10_000, Habits(replace=0.9)),
        "laptop": Directory(120, 12_000, Habits(edit=0.1, away=0.3)),
    },
    "mail": {
        "inbox": Directory(100, 30_000, Habits(append=0.8)),
        "archive": Directory(100, 25_000, Habits(rename=0.02), copies=3),
        "index": Directory(60, 12_000, Habits(replace=0.4, revert=0.3)),
    },
    "source": {
        "src": Directory(500, 6_000, Habits(edit=0.1, insert=0.12, revert=0.05, rename=0.02)),
        "build": Directory(250, 9_000, Habits(replace=0.35, revert=0.35)),
        "vendor": Directory(80, 12_000, Habits(copy=0.01), copies=3),
    },
    "database": {
        "tables": Directory(40, 100_000, Habits(edit=0.9)),
        "log": Directory(80, 20_000, Habits(replace=0.3, append=0.3)),
        "dumps": Directory(60, 40_000, Habits(insert=0.4, away=0.25), copies=2),
    },
}
# From one full to the next all chances vary together by about so much.
_BUSY = 0.08


def make_backups(
    root: Path, tree: str, seed: int, fulls: int = 5, scale: float = 1.0
) -> list[Path]:
    """Write full backups below `root`, which must be empty or not there; return their paths."""
    if root.exists() and any(root.iterdir()):
        raise DedupError(f"{root} is not empty: name a new directory")
    made = []
    for number, files in enumerate(_backups(tree, seed, fulls, scale)):
        path = root / f"full-{number}"
        for name, content in files.items():
            place = path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        made.append(path)
    return made


def tree_traces(
    tree: str, seed: int, chunker: Chunker, fulls: int = 5, scale: float = 1.0
) -> list[Trace]:
    """Cut the same backups without writing them anywhere."""
    traces = []
    for number, files in enumerate(_backups(tree, seed, fulls, scale)):
        builder = TraceBuilder(f"full-{number}")
        for name in sorted(files):
            builder.add(name, chunker.segments(io.BytesIO(files[name])))
        traces.append(builder.build())
    return traces


def _backups(tree: str, seed: int, fulls: int, scale: float) -> Iterator[dict[str, bytes]]:
    """Yield the files of one full backup after the other."""
    if tree not in TREES:
        raise DedupError(f"there is no tree {tree}; there are {', '.join(TREES)}")
    generator = np.random.default_rng([seed, sum(tree.encode())])
    state = _State(TREES[tree], generator, scale)
    for number in range(fulls):
        if number:
            state.live()
        yield state.backup()


class _State:
    """The files as they are, and as they were one full earlier."""

    def __init__(self, tree: Tree, generator: np.random.Generator, scale: float) -> None:
        self._random = generator
        self._tree = tree
        self._files: dict[str, bytes] = {}
        self._earlier: dict[str, list[bytes]] = {}
        self._made = 0
        self._busy = 1.0
        for name, directory in tree.items():
            for _ in range(max(1, round(directory.files * scale))):
                content = self._new(directory.mean_bytes)
                for _ in range(directory.copies):
                    self._files[self._name(name)] = content

    def live(self) -> None:
        """Let the time between two fulls pass."""
        before = dict(self._files)
        self._busy = self._random.lognormal(0, _BUSY)
        for path in sorted(before):
            directory = self._tree[path.split("/")[0]]
            self._touch(path, directory)
        for path, content in before.items():
            self._earlier.setdefault(path, []).append(content)

    def backup(self) -> dict[str, bytes]:
        """Return what a full backup holds now."""
        return {
            path: content
            for path, content in self._files.items()
            if not self._happens(self._tree[path.split("/")[0]].habits.away)
        }

    def _touch(self, path: str, directory: Directory) -> None:
        habits, random = directory.habits, self._random
        content = self._files[path]
        earlier = self._earlier.get(path, [])
        if self._happens(habits.revert) and earlier:
            content = earlier[-1]
        elif self._happens(habits.replace):
            content = self._new(directory.mean_bytes)
        if self._happens(habits.edit):
            content = self._edited(content)
        if self._happens(habits.insert):
            at = int(random.integers(0, len(content)))
            content = content[:at] + random.bytes(int(random.integers(50, 500))) + content[at:]
        if self._happens(habits.append):
            content += random.bytes(len(content) // 10 + 1)
        self._files[path] = content
        if self._happens(habits.copy):
            self._files[self._name(path.split("/")[0])] = content
        if self._happens(habits.rename):
            self._files[self._name(path.split("/")[0])] = self._files.pop(path)
        elif self._happens(habits.delete):
            del self._files[path]
            self._files[self._name(path.split("/")[0])] = self._new(directory.mean_bytes)

    def _happens(self, chance: float) -> bool:
        return bool(self._random.random() < chance * self._busy)

    def _edited(self, content: bytes) -> bytes:
        edited = bytearray(content)
        for _ in range(max(1, len(content) // 100_000)):
            at = int(self._random.integers(0, len(content)))
            piece = self._random.bytes(min(1000, len(content) - at))
            edited[at : at + len(piece)] = piece
        return bytes(edited)

    def _new(self, mean: int) -> bytes:
        """Return new content, log-normal in size."""
        size = int(mean * self._random.lognormal(-0.32, 0.8))
        return self._random.bytes(min(max(size, 100), 20 * mean))

    def _name(self, directory: str) -> str:
        self._made += 1
        return f"{directory}/{self._made:05}"
