"""How well data deduplicates, from a random sample of its segments.

Every occurrence of a segment is sampled with the same chance p. A content that occurs i times is
then seen j times with the probability of the binomial distribution, and each content is seen
independently of the others. So of x_i contents that occur i times there are expected

    E_j = sum over i of x_i Binomial(j; i, p)

that are seen j times. What was seen bounds each E_j; the linear programmes give the least and the
most that can be stored within all of these bounds together (after Valiant and Valiant, and
Harnik, Khaitzin and Sotnikov: Estimating Unseen Deduplication, FAST 2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats
from scipy.optimize import linprog

from intarsia.dedup.errors import DedupError

Values = NDArray[np.float64]

# Frequencies and bins are taken one by one up to here, and then in steps that grow.
_SINGLY = 40
_STEP = 1.08
_BIN_STEP = 1.25


@dataclass(frozen=True)
class Estimate:
    """Stored over logical: lower is better. The interval holds the truth as often as it says."""

    ratio: float
    low: float
    high: float
    confidence: float
    sampled: int
    """Segments in the sample."""
    share: float
    naive: float
    """The ratio within the sample, which is always too high."""
    sample_fits: bool
    """Whether some population explains the sample within the bounds."""


def estimate_counts(
    occurrences: NDArray[np.int64], share: float, total: int, confidence: float = 0.95
) -> Estimate:
    """Estimate distinct over all segments.

    `occurrences` says how often each content of the sample was seen there, `share` is the chance
    with which segments were taken, `total` how many there are in all.
    """
    return estimate(occurrences, np.ones(len(occurrences)), share, float(total), confidence)


def estimate(
    occurrences: NDArray[np.int64],
    sizes: Values | NDArray[np.int64],
    share: float,
    total: float,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate stored over logical bytes; `sizes` are those of the contents, `total` of all data.

    A sum of sizes scatters more than a number of contents. It is bounded as a number of contents
    of the typical size, in which large ones count for more.
    """
    if not 0 < share <= 1:
        raise DedupError(f"a sample of {share}: give a share above 0 and up to 1, as 0.05")
    if not len(occurrences):
        raise DedupError("the sample is empty: take a larger share")
    weights = np.asarray(sizes, np.float64)
    seen = float((weights * occurrences).sum())
    naive = float(weights.sum()) / seen
    if share == 1:
        return Estimate(naive, naive, naive, confidence, int(occurrences.sum()), share, naive, True)
    problem = _Problem(occurrences, weights, share, total, confidence)
    low, high, fits = problem.extremes()
    best = min(max(problem.nearest(), low), high)
    return Estimate(best, low, high, confidence, int(occurrences.sum()), share, naive, fits)


class _Problem:
    """The linear programmes of one sample; amounts are shares of the total."""

    def __init__(
        self,
        occurrences: NDArray[np.int64],
        weights: Values,
        share: float,
        total: float,
        confidence: float,
    ) -> None:
        most_seen = int(occurrences.max())
        typical = float((weights**2).sum() / weights.sum())
        self._edges = _bins(most_seen)
        self._frequencies = _frequencies(most_seen, share)
        seen = _binned(occurrences, weights, self._edges)
        squares = _binned(occurrences, weights**2, self._edges)
        size = np.divide(squares, seen, out=np.full(len(seen), typical), where=seen > 0)
        self._matrix = _probabilities(self._edges, self._frequencies, share)
        tail = (1 - confidence) / 2 / len(seen)
        counts = seen / size
        low = np.where(counts > 0, stats.gamma.ppf(tail, np.maximum(counts, 1e-9)), 0.0)
        high = stats.gamma.isf(tail, counts + 1)
        scale = size / total
        self._seen, self._low, self._high = seen / total, low * scale, high * scale
        self._spread = np.sqrt(counts + 1) * scale
        self._known = float(weights.sum()) / total

    def extremes(self) -> tuple[float, float, bool]:
        """Return the least and the most that can be stored, and whether the bounds can be met.

        Where they cannot (the sample is one of the few beyond them, or the frequencies between
        those of the grid matter), all bounds give way by the same number of spreads, the least
        that makes them meet.
        """
        bounds = self._low, self._high
        least, most = self._stored(1, *bounds), self._stored(-1, *bounds)
        if least is not None and most is not None:
            return self._clip(least), self._clip(most), True
        slack = (self._least_slack() * 1.01 + 1e-9) * self._spread
        bounds = self._low - slack, self._high + slack
        least, most = self._stored(1, *bounds), self._stored(-1, *bounds)
        if least is None or most is None:
            return self._known, 1.0, False
        return self._clip(least), self._clip(most), False

    def nearest(self) -> float:
        """Return what is stored if the expected are as near to the seen as can be."""
        frequencies, bins = len(self._frequencies), len(self._seen)
        # min sum of t with |E - seen| <= spread x t
        cost = np.concatenate([np.zeros(frequencies), np.ones(bins)])
        slack = sparse.diags(self._spread)
        above = sparse.hstack([self._matrix, -slack])
        below = sparse.hstack([-self._matrix, -slack])
        found = linprog(
            cost,
            A_ub=sparse.vstack([above, below]).tocsr(),
            b_ub=np.concatenate([self._seen, -self._seen]),
            A_eq=np.concatenate([self._frequencies, np.zeros(bins)])[None, :],
            b_eq=[1.0],
            method="highs",
        )
        if found.x is None:
            return 1.0
        return self._clip(float(found.x[:frequencies].sum()))

    def _stored(self, direction: int, low: Values, high: Values) -> float | None:
        found = linprog(
            direction * np.ones(len(self._frequencies)),
            A_ub=np.vstack([self._matrix, -self._matrix]),
            b_ub=np.concatenate([high, -low]),
            A_eq=self._frequencies[None, :],
            b_eq=[1.0],
            method="highs",
        )
        return float(found.x.sum()) if found.status == 0 else None

    def _least_slack(self) -> float:
        frequencies = len(self._frequencies)
        cost = np.append(np.zeros(frequencies), 1.0)
        column = -self._spread[:, None]
        found = linprog(
            cost,
            A_ub=np.vstack([np.hstack([self._matrix, column]), np.hstack([-self._matrix, column])]),
            b_ub=np.concatenate([self._high, -self._low]),
            A_eq=np.append(self._frequencies, 0.0)[None, :],
            b_eq=[1.0],
            method="highs",
        )
        return float(found.x[-1]) if found.status == 0 else 0.0

    def _clip(self, stored: float) -> float:
        return min(max(stored, self._known), 1.0)


def _frequencies(most_seen: int, share: float) -> Values:
    """Return the frequencies that a population may have: fine where samples tell them apart."""
    top = max(2 * _SINGLY, most_seen) / share * 1.5 + 10
    singly = np.arange(1, 2 * _SINGLY + 1, dtype=np.float64)
    steps = int(np.ceil(np.log(top / singly[-1]) / np.log(_STEP)))
    further = np.round(singly[-1] * _STEP ** np.arange(1, steps + 1))
    return np.unique(np.concatenate([singly, further]))


def _bins(most_seen: int) -> NDArray[np.int64]:
    """Return edges of bins of numbers of sightings: the first ends after 1; the last has no end."""
    edges = list(range(1, _SINGLY + 2))
    while edges[-1] <= most_seen:
        edges.append(max(edges[-1] + 1, round(edges[-1] * _BIN_STEP)))
    return np.array(edges, np.int64)


def _binned(occurrences: NDArray[np.int64], weights: Values, edges: NDArray[np.int64]) -> Values:
    place = np.searchsorted(edges, occurrences, side="right") - 1
    sums = np.bincount(place, weights, minlength=len(edges))
    return np.asarray(sums, np.float64)


def _probabilities(edges: NDArray[np.int64], frequencies: Values, share: float) -> Values:
    """Return the probability of each bin for a content of each frequency."""
    below = stats.binom.cdf(edges[:, None] - 1, frequencies[None, :], share)
    ends = np.vstack([below[1:], np.ones((1, len(frequencies)))])
    return np.asarray(np.clip(ends - below, 0.0, 1.0), np.float64)
