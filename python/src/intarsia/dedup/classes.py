"""Which segments are unique, base and duplicate, after each full backup.

*Unique* content occurred once so far, *base* content more often and is stored once, *duplicates*
are the other occurrences of base content. Stored is unique plus base.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia.dedup.trace import Flags, Ids, Sizes, Trace


@dataclass(frozen=True)
class Composition:
    """What all backups so far consist of: segments or bytes; fractions in forecasts."""

    logical: float
    unique: float
    base: float

    @property
    def stored(self) -> float:
        """What a store with deduplication holds."""
        return self.unique + self.base

    @property
    def duplicate(self) -> float:
        """What deduplication saves."""
        return self.logical - self.stored

    @property
    def ratio(self) -> float:
        """Stored over logical: lower is better."""
        return self.stored / self.logical if self.logical else 1.0

    @property
    def references(self) -> float:
        """Duplicates a base segment; 0 without any."""
        return self.duplicate / self.base if self.base else 0.0


@dataclass(frozen=True)
class Transition:
    """From one full backup to the next."""

    full: float
    """Size of the later one."""
    usr: float
    """Unique segment ratio: new content over `full`."""
    bgr: float
    """Base generation rate: share of the unique content so far that now became base."""
    absent: float
    """Share of `full` whose content the earlier backup alone lacks, each content once."""
    changed: float
    """The same, each occurrence: the data change rate of the naive forecast."""

    @property
    def freshness(self) -> float:
        """Of what the earlier backup lacks, the share that no backup before it had either."""
        return self.usr / self.absent if self.absent else 1.0


@dataclass(frozen=True)
class Series:
    """What was observed, in segments or in bytes."""

    fulls: tuple[float, ...]
    states: tuple[Composition, ...]
    transitions: tuple[Transition, ...]

    def until(self, fulls: int) -> Series:
        """Return what was known after so many backups."""
        return Series(self.fulls[:fulls], self.states[:fulls], self.transitions[: fulls - 1])

    @property
    def within_first(self) -> float:
        """Share of the first backup that repeats itself."""
        return self.states[0].duplicate / self.fulls[0]


@dataclass(frozen=True)
class Observed:
    """A series of full backups, counted and weighed."""

    counts: Series
    bytes: Series


class Classifier:
    """Counts occurrences as segments stream by, in batches of any length.

    Memory grows with the distinct contents: 24 bytes each.
    """

    def __init__(self) -> None:
        self._ids: Ids = np.zeros(0, np.uint64)
        self._occurrences: NDArray[np.int64] = np.zeros(0, np.int64)
        self._sizes: Sizes = np.zeros(0, np.int64)
        self._logical = [0, 0]

    def add(self, ids: Ids, sizes: Sizes) -> Flags:
        """Count a batch; return which of its segments are the first of their content."""
        distinct, first, counts = np.unique(ids, return_index=True, return_counts=True)
        at = np.searchsorted(self._ids, distinct)
        is_known = at < len(self._ids)
        is_known[is_known] = self._ids[at[is_known]] == distinct[is_known]
        self._occurrences[at[is_known]] += counts[is_known]
        new, place = ~is_known, at[~is_known]
        self._ids = np.insert(self._ids, place, distinct[new])
        self._occurrences = np.insert(self._occurrences, place, counts[new])
        self._sizes = np.insert(self._sizes, place, sizes[first[new]])
        self._logical[0] += len(ids)
        self._logical[1] += int(sizes.sum())
        is_stored = np.zeros(len(ids), np.bool_)
        is_stored[first[new]] = True
        return is_stored

    @property
    def occurrences(self) -> NDArray[np.int64]:
        """How often each content occurred."""
        return self._occurrences

    @property
    def sizes(self) -> Sizes:
        """Size of each content, bytes."""
        return self._sizes

    def counts(self) -> Composition:
        """Return the composition in segments."""
        unique = int(np.count_nonzero(self._occurrences == 1))
        return Composition(self._logical[0], unique, len(self._ids) - unique)

    def bytes(self) -> Composition:
        """Return the composition in bytes."""
        unique = int(self._sizes[self._occurrences == 1].sum())
        return Composition(self._logical[1], unique, int(self._sizes.sum()) - unique)

    def once(self) -> Ids:
        """Return the contents that occurred once."""
        once: Ids = self._ids[self._occurrences == 1]
        return once


def observe(backups: Iterable[Trace]) -> Observed:
    """Classify full backups in the order in which they were made."""
    classifier = Classifier()
    fulls: tuple[list[float], list[float]] = ([], [])
    states: tuple[list[Composition], list[Composition]] = ([], [])
    transitions: tuple[list[Transition], list[Transition]] = ([], [])
    previous: Trace | None = None
    for backup in backups:
        classifier.add(backup.ids, backup.sizes)
        weights = (np.ones(len(backup), np.int64), backup.sizes)
        now = (classifier.counts(), classifier.bytes())
        for kind in (0, 1):
            full = float(weights[kind].sum())
            if previous is not None:
                absent, changed = _absent(previous, backup, weights[kind])
                transitions[kind].append(
                    _transition(states[kind][-1], now[kind], full, absent, changed)
                )
            fulls[kind].append(full)
            states[kind].append(now[kind])
        previous = backup
    counts, weighed = (
        Series(tuple(fulls[kind]), tuple(states[kind]), tuple(transitions[kind])) for kind in (0, 1)
    )
    return Observed(counts, weighed)


def _absent(previous: Trace, backup: Trace, weights: NDArray[np.int64]) -> tuple[float, float]:
    """Weigh what `previous` lacks: each content once, and each occurrence."""
    is_absent = ~np.isin(backup.ids, previous.ids)
    _, first = np.unique(backup.ids, return_index=True)
    once = first[is_absent[first]]
    return float(weights[once].sum()), float(weights[is_absent].sum())


def _transition(
    before: Composition, after: Composition, full: float, absent: float, changed: float
) -> Transition:
    """Apply the definitions: usr counts what is unique now beyond what stayed unique.

    Content that is new and repeated within the same backup goes to base at once. The published
    definition books it as if it had been unique before; so does this one, which keeps the identity
    stored(i + 1) = stored(i) + usr x full exact.
    """
    bgr = (after.base - before.base) / before.unique if before.unique else 0.0
    usr = (after.unique - before.unique * (1 - bgr)) / full
    return Transition(full, usr, bgr, absent / full, changed / full)
