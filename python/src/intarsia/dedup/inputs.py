"""Backups as users have them: a directory, a tar, or a list of fingerprints."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from intarsia.dedup.chunkers import Chunker, Kind, fingerprint
from intarsia.dedup.errors import DedupError
from intarsia.dedup.lists import read_list
from intarsia.dedup.trace import Trace, TraceBuilder

Tell = Callable[[int], None]
"""Is told how many bytes more were read."""


def is_list(path: Path) -> bool:
    """Whether `path` is read as a list of fingerprints."""
    return path.is_file() and not _is_tar(path)


def input_bytes(path: Path) -> int:
    """How much there is to read, for progress; 0 where that cannot be known."""
    if path.is_dir():
        return sum(size for _, size in _files(path))
    return path.stat().st_size if path.is_file() and _is_tar(path) else 0


def read_backup(path: Path, chunker: Chunker, tell: Tell = lambda _: None) -> Trace:
    """Read one backup; raise `DedupError` when there is nothing in it or it is damaged.

    Links and special files have no content and are left out. A file that changes while it is read
    counts as it was read.
    """
    if not path.exists():
        raise DedupError(f"{path} does not exist: give a directory, a tar or a list")
    if is_list(path):
        return read_list(path)
    builder = TraceBuilder(str(path), str(chunker))
    if path.is_dir():
        _add_directory(path, chunker, builder, tell)
    else:
        _add_tar(path, chunker, builder, tell)
    trace = builder.build()
    if not len(trace):
        raise DedupError(f"{path} holds no file with content")
    return trace


def sample_backup(path: Path, size: int, share: float, seed: int) -> tuple[Trace, int, int]:
    """Read each fixed segment of a directory with the chance `share`, and nothing else.

    Returns what was read, and how many segments and bytes there are in all.
    """
    generator = np.random.default_rng(seed)
    builder = TraceBuilder(str(path), f"{Kind.FIXED}:{size}")
    segments = total = 0
    for name, length in _files(path):
        count = -(-length // size)
        segments, total = segments + count, total + length
        chosen = np.flatnonzero(generator.random(count) < share)
        if len(chosen):
            builder.add(name, _read_at(path / name, chosen.tolist(), size))
    if not total:
        raise DedupError(f"{path} holds no file with content")
    return builder.build(), segments, total


def _read_at(path: Path, numbers: list[int], size: int) -> Iterator[tuple[int, int]]:
    with open(path, "rb", buffering=0) as file:
        for number in numbers:
            if block := os.pread(file.fileno(), size, number * size):
                yield fingerprint(block), len(block)


def _files(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the plain files below `root` in order of their names, with their lengths.

    A file with several names counts once, as a tar has it; one that has just gone does not.
    """
    seen = set()
    for directory, below, names in os.walk(root, onerror=_refuse):
        below.sort()
        for name in sorted(names):
            path = Path(directory, name)
            with suppress(FileNotFoundError):
                found = path.lstat()
                if not stat.S_ISREG(found.st_mode) or (found.st_dev, found.st_ino) in seen:
                    continue
                if found.st_nlink > 1:
                    seen.add((found.st_dev, found.st_ino))
                yield str(path.relative_to(root)), found.st_size


def _refuse(error: OSError) -> None:
    """Fail: what is left out unseen would make the forecast wrong."""
    raise DedupError(f"{error.filename} cannot be read: {error.strerror}")


def _add_directory(root: Path, chunker: Chunker, builder: TraceBuilder, tell: Tell) -> None:
    for name, length in _files(root):
        with open(root / name, "rb", buffering=2**20 if chunker.kind is Kind.FIXED else 0) as file:
            builder.add(name, chunker.segments(file))
        tell(length)


def _add_tar(path: Path, chunker: Chunker, builder: TraceBuilder, tell: Tell) -> None:
    with _tar(path) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                builder.add(member.name, chunker.segments(cast(BinaryIO, content)))
            tell(member.size)


@contextmanager
def _tar(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:*") as archive:
            yield archive
    except (tarfile.TarError, EOFError) as error:
        raise DedupError(f"{path} is damaged or was cut off: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise DedupError(f"{path} is damaged or was cut off: {error}") from error


def _is_tar(path: Path) -> bool:
    """Look into the file; by its name too, so that a damaged one is called that."""
    name = path.name.lower()
    if name.endswith((".tar", ".tgz", ".tbz2", ".txz")) or ".tar." in name:
        return True
    try:
        return tarfile.is_tarfile(path)
    except OSError:
        return False
