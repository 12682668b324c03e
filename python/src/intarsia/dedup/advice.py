"""What kind of data it is, what to leave out of deduplication, and what two data sets share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from intarsia.dedup.classes import Classifier, Composition, Observed, Series, observe
from intarsia.dedup.errors import DedupError
from intarsia.dedup.forecast import Rates, project, rates
from intarsia.dedup.trace import Trace, joined

# A class grows if a backup adds more than this share of its size to it.
_GROWS = 0.01


class Trend(StrEnum):
    """What a class of segments does from backup to backup."""

    GROWING = "growing"
    STEADY = "steady"
    SHRINKING = "shrinking"


@dataclass(frozen=True)
class DataClass:
    """What becomes of base and unique content after the first transition."""

    base: Trend
    unique: Trend


def data_class(series: Series) -> DataClass:
    """Tell which class of data set this is; needs three backups."""
    later = series.states[1:]
    if len(later) < 2:
        raise DedupError("the class of a data set shows from three full backups on")
    full = float(np.mean(series.fulls))

    def trend(values: Sequence[float]) -> Trend:
        share = (values[-1] - values[0]) / (len(values) - 1) / full
        if share > _GROWS:
            return Trend.GROWING
        return Trend.SHRINKING if share < -_GROWS else Trend.STEADY

    return DataClass(trend([s.base for s in later]), trend([s.unique for s in later]))


@dataclass(frozen=True)
class Part:
    """A part of a backup, such as a directory, and what deduplication does for it."""

    name: str
    bytes_a_backup: float
    segments_a_backup: float
    usr: float
    """Share of its bytes that is new to the whole store in a backup."""
    bgr: float
    """Share of its content that occurred once so far and occurs again in a backup."""
    saved_a_backup: float
    """Bytes that deduplication saves in it a backup."""
    exclude: bool
    reason: str


def parts(
    backups: Sequence[Trace], depth: int = 1, usr_from: float = 0.5, bgr_to: float = 0.2
) -> list[Part]:
    """Judge each directory down to `depth` levels; the largest first.

    To exclude is what is mostly new each time and hardly ever comes back: a working set that is
    written anew. It fills the index and saves next to nothing.
    """
    if len(backups) < 2:
        raise DedupError("what to exclude shows from two full backups on")
    classifier = Classifier()
    names: dict[str, int] = {}
    seen: list[_PartSums] = []
    for number, backup in enumerate(backups):
        once = classifier.once()
        is_new = classifier.add(backup.ids, backup.sizes)
        group = _groups(backup, depth, names)
        seen.extend(_PartSums() for _ in range(len(names) - len(seen)))
        comes_back = np.isin(backup.ids, once)
        for index in np.unique(group).tolist():
            seen[index].add(backup, group == index, is_new, comes_back, is_first=number == 0)
    transitions = len(backups) - 1
    found = [
        _judged(name, seen[index], transitions, usr_from, bgr_to)
        for name, index in names.items()
        if seen[index].segments
    ]
    return sorted(found, key=lambda part: -part.bytes_a_backup)


class _PartSums:
    """Sums of one part over the transitions."""

    def __init__(self) -> None:
        self.segments = self.bytes = self.new = self.returned = self.waiting = 0
        self._once = 0

    def add(
        self,
        backup: Trace,
        mine: NDArray[np.bool_],
        is_new: NDArray[np.bool_],
        comes_back: NDArray[np.bool_],
        is_first: bool,
    ) -> None:
        new = int(backup.sizes[mine & is_new].sum())
        if not is_first:
            back = np.unique(backup.ids[mine & comes_back]).size
            self.segments += int(mine.sum())
            self.bytes += int(backup.sizes[mine].sum())
            self.new += new
            self.returned += back
            self.waiting += self._once
            self._once -= back
        self._once = max(self._once, 0) + int((mine & is_new).sum())


def _judged(name: str, sums: _PartSums, transitions: int, usr_from: float, bgr_to: float) -> Part:
    usr = sums.new / sums.bytes
    bgr = min(sums.returned / sums.waiting, 1.0) if sums.waiting else 0.0
    exclude = usr >= usr_from and bgr <= bgr_to
    if exclude:
        reason = f"{usr:.0%} is new each time and {bgr:.0%} of that ever comes back"
    elif usr >= usr_from:
        reason = f"{usr:.0%} is new each time, but {bgr:.0%} comes back: it will deduplicate later"
    else:
        reason = f"deduplication saves {1 - usr:.0%} of it"
    return Part(
        name,
        sums.bytes / transitions,
        sums.segments / transitions,
        usr,
        bgr,
        (sums.bytes - sums.new) / transitions,
        exclude,
        reason,
    )


def _groups(backup: Trace, depth: int, names: dict[str, int]) -> NDArray[np.int64]:
    """Return the part of each segment; new parts get the next numbers."""
    of_path = []
    for path in backup.paths:
        levels = path.strip("/").split("/")
        name = "/".join(levels[: min(depth, len(levels) - 1)]) or "(files at the top)"
        of_path.append(names.setdefault(name, len(names)))
    return np.array(of_path, np.int64)[backup.owners]


@dataclass(frozen=True)
class Merged:
    """Two data sets in one store: by superposition, and as measured together."""

    superposed: Composition
    """Now, if they share nothing."""
    together: Composition
    """Now, as classified together."""
    shared: float
    """What both have, stored once: segments or bytes."""
    superposed_rates: Rates
    together_rates: Rates
    superposed_ahead: tuple[Composition, ...]
    together_ahead: tuple[Composition, ...]

    @property
    def shared_share(self) -> float:
        """What is shared, of what the two would store apart."""
        return self.shared / self.superposed.stored if self.superposed.stored else 0.0


def merge(first: Sequence[Trace], second: Sequence[Trace], horizon: int) -> tuple[Merged, Merged]:
    """Forecast one store for two data sets with equally many backups; in segments and in bytes.

    The superposition adds what each stores and weighs usr by the sizes of the backups and bgr by
    the unique content. It is right when they share nothing; beside it stands what is measured.
    """
    if len(first) != len(second):
        raise DedupError(
            f"{len(first)} and {len(second)} full backups: give equally many of both, as a merged "
            "store takes one of each at a time"
        )
    apart = observe(first), observe(second)
    pairs = zip(first, second, strict=True)
    together = observe(joined(f"full {n}", pair) for n, pair in enumerate(pairs))
    return (
        _merged(apart[0].counts, apart[1].counts, together.counts, horizon),
        _merged(apart[0].bytes, apart[1].bytes, together.bytes, horizon),
    )


def _merged(one: Series, other: Series, together: Series, horizon: int) -> Merged:
    a, b = one.states[-1], other.states[-1]
    now = Composition(a.logical + b.logical, a.unique + b.unique, a.base + b.base)
    ra, rb = rates(one), rates(other)
    full = one.fulls[-1] + other.fulls[-1]
    weighed = Rates(
        (ra.usr * one.fulls[-1] + rb.usr * other.fulls[-1]) / full,
        (ra.bgr * a.unique + rb.bgr * b.unique) / now.unique if now.unique else 0.0,
    )
    measured = rates(together)
    return Merged(
        superposed=now,
        together=together.states[-1],
        shared=now.stored - together.states[-1].stored,
        superposed_rates=weighed,
        together_rates=measured,
        superposed_ahead=tuple(project(now, weighed, [full] * horizon)),
        together_ahead=tuple(project(together.states[-1], measured, [full] * horizon)),
    )


def without(backups: Sequence[Trace], excluded: Sequence[str], depth: int) -> Observed:
    """Classify the backups without the parts of these names."""
    kept = []
    for backup in backups:
        names: dict[str, int] = {}
        group = _groups(backup, depth, names)
        out = [names[name] for name in excluded if name in names]
        kept.append(backup.where(~np.isin(group, out)))
    return observe(kept)
