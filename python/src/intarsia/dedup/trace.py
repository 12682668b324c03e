"""A full backup as deduplication sees it: segments in order, each with a fingerprint and a size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]
Sizes = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Trace:
    """The segments of one full backup.

    `ids` are the first 64 bits of the fingerprints: two of a billion different contents meet there
    with a chance of 3 %, and then one segment too many counts as a duplicate. `sizes` are bytes.
    `owners` says of each segment which of `paths` it belongs to.
    """

    name: str
    ids: Ids
    sizes: Sizes
    owners: NDArray[np.int32]
    paths: tuple[str, ...]
    cut: str = ""
    """How it was cut, if known: traces that were cut in other ways have nothing in common."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def bytes(self) -> int:
        """Size of the whole backup."""
        return int(self.sizes.sum())

    @classmethod
    def of(cls, name: str, ids: Ids, sizes: Sizes) -> Trace:
        """Make a trace whose segments belong to no files."""
        return cls(name, ids, sizes, np.zeros(len(ids), np.int32), (name,))

    def where(self, flags: Flags) -> Trace:
        """Return the segments that `flags` names."""
        return replace(
            self, ids=self.ids[flags], sizes=self.sizes[flags], owners=self.owners[flags]
        )


def joined(name: str, traces: Sequence[Trace]) -> Trace:
    """Return the segments of several backups as one, in this order."""
    paths: list[str] = []
    owners = []
    for trace in traces:
        owners.append(trace.owners + np.int32(len(paths)))
        paths.extend(f"{trace.name}/{path}" for path in trace.paths)
    return Trace(
        name,
        np.concatenate([trace.ids for trace in traces]),
        np.concatenate([trace.sizes for trace in traces]),
        np.concatenate(owners),
        tuple(paths),
        traces[0].cut,
    )


class TraceBuilder:
    """Gathers segments file by file, in compact arrays."""

    def __init__(self, name: str, cut: str = "") -> None:
        self._name, self._cut = name, cut
        self._ids: list[Ids] = []
        self._sizes: list[Sizes] = []
        self._lengths: list[int] = []
        self._paths: list[str] = []

    def add(self, path: str, segments: Iterable[tuple[int, int]]) -> None:
        """Add the fingerprints and sizes of one file."""
        pairs = list(segments)
        self._ids.append(np.array([pair[0] for pair in pairs], np.uint64))
        self._sizes.append(np.array([pair[1] for pair in pairs], np.int64))
        self._lengths.append(len(pairs))
        self._paths.append(path)

    def build(self) -> Trace:
        """Return all that was added."""
        return Trace(
            self._name,
            np.concatenate([np.zeros(0, np.uint64), *self._ids]),
            np.concatenate([np.zeros(0, np.int64), *self._sizes]),
            np.repeat(np.arange(len(self._paths), dtype=np.int32), self._lengths),
            tuple(self._paths),
            self._cut,
        )
