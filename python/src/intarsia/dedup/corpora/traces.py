"""Generated traces of full backups that resemble the six published data sets.

A backup is an ordered list of positions. From one full to the next a share of the positions,
taken in runs, gets new content (`fresh`) or content that was there before the last full
(`returning`). The published tables fix the shares: what is stored after five fulls gives one
equation, the error of the naive forecast another. How much the shares differ from week to week
is drawn; it is not published.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia.dedup.trace import Trace

FULLS = 5


@dataclass(frozen=True)
class Profile:
    """How a data set changes; shares of a full backup."""

    name: str
    fresh: float
    returning: float
    within: float
    """Repeats itself within a full backup."""
    hot: float
    """Of the changes, those that fall on positions that change every time."""
    scatter: float
    """Standard deviation of the logit of `fresh` from week to week."""
    mean_run: float
    """Of changed positions."""
    long_share: float
    """Of the changes, those in runs that are long."""


def make_traces(profile: Profile, seed: int, positions: int, fulls: int = FULLS) -> list[Trace]:
    """Make full backups of `positions` segments; the same seed makes the same ones."""
    return _Generator(profile, seed, positions).make(fulls)


class _Generator:
    def __init__(self, profile: Profile, seed: int, positions: int) -> None:
        self._profile = profile
        self._random = np.random.default_rng([seed, sum(profile.name.encode())])
        self._next = 1
        self._salt = self._random.integers(1, 2**62, dtype=np.uint64)
        self._content = self._fresh(positions)
        repeats = self._random.random(positions) < profile.within
        source = self._random.integers(0, positions, int(repeats.sum()))
        self._content[repeats] = self._content[source]
        self._before = np.zeros(positions, np.int64)
        # Changes that come back, and those of the hot set, have their places.
        order = self._runs_first(positions)
        edge = round(profile.returning * positions)
        self._returning, self._others = order[:edge], order[edge:]
        self._hot = min(round(profile.fresh * 1.1 * positions), len(self._others))

    def make(self, fulls: int) -> list[Trace]:
        traces = [self._trace(0)]
        for number in range(1, fulls):
            self._step()
            traces.append(self._trace(number))
        return traces

    def _step(self) -> None:
        profile, content = self._profile, self._content
        swapped = self._returning
        now = content[swapped].copy()
        back = self._before[swapped]
        unseen = back == 0
        back[unseen] = self._fresh(int(unseen.sum()))
        content[swapped], self._before[swapped] = back, now
        logit = np.log(profile.fresh / (1 - profile.fresh))
        share = 1 / (1 + np.exp(-logit - profile.scatter * self._random.standard_normal()))
        changes = min(round(share * len(content)), len(self._others))
        hot_set, rest = self._others[: self._hot], self._others[self._hot :]
        hot = min(round(changes * profile.hot), len(hot_set))
        hot = max(hot, changes - len(rest))
        chosen = np.concatenate([self._in_runs(hot_set, hot), self._in_runs(rest, changes - hot)])
        content[chosen] = self._fresh(len(chosen))

    def _in_runs(self, places: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Choose `count` of the places: neighbours in runs of drawn lengths."""
        count = min(count, len(places))
        chosen = np.zeros(len(places), np.bool_)
        missing = count
        while missing > 0:
            lengths = self._lengths(missing)
            starts = self._random.integers(0, len(places), len(lengths))
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
                chosen[start : start + length] = True
            missing = count - int(chosen.sum())
            if missing > 0 and missing < 0.02 * count + 2:
                # The rest one by one, so that this ends where places are scarce.
                rest = np.flatnonzero(~chosen)
                chosen[self._random.choice(rest, missing, replace=False)] = True
                missing = 0
        surplus = -missing
        if surplus > 0:
            ends = np.flatnonzero(chosen)
            chosen[ends[-surplus:]] = False
        return places[chosen]

    def _lengths(self, total: int) -> NDArray[np.int64]:
        """Draw lengths of runs that sum to about `total`: geometric, with a long tail."""
        profile = self._profile
        body = round(total * (1 - profile.long_share) / profile.mean_run)
        short = self._random.geometric(1 / max(profile.mean_run, 1.0), max(body, 1))
        long: list[int] = []
        while sum(long) < total * profile.long_share:
            drawn = 1001 * (1 - self._random.random()) ** -1.0
            long.append(int(min(drawn, max(total * profile.long_share - sum(long), 1))))
        lengths = np.concatenate([short, np.array(long, np.int64)])
        self._random.shuffle(lengths)
        kept = np.searchsorted(np.cumsum(lengths), total) + 1
        return np.asarray(lengths[:kept], np.int64)

    def _runs_first(self, positions: int) -> NDArray[np.int64]:
        """Return all positions, shuffled in stretches, so that neighbours mostly stay so."""
        stretch = max(8, positions // 64)
        starts = np.arange(0, positions, stretch)
        self._random.shuffle(starts)
        return np.concatenate(
            [np.arange(start, min(start + stretch, positions)) for start in starts.tolist()]
        )

    def _fresh(self, count: int) -> NDArray[np.int64]:
        made = np.arange(self._next, self._next + count, dtype=np.int64)
        self._next += count
        return made

    def _trace(self, number: int) -> Trace:
        ids = _mixed(self._content.astype(np.uint64) + self._salt)
        return Trace.of(f"{self._profile.name} {number}", ids, _sizes(ids))


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread numbers over 64 bits, one to one (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)


def _sizes(ids: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Give each content its size: 4 KiB and more, up to 16 KiB, 13 kB on average."""
    share = ((ids >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53
    # An exponential that is cut off at 16 KiB and grows towards it gives the published mean.
    scale, room = 5200.0, 12288.0
    more = room + scale * np.log(share + (1 - share) * np.exp(-room / scale))
    return np.asarray(4096 + np.clip(more, 1, room), np.int64)
