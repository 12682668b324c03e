"""Means with intervals, over rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and half of its 95 % interval, in the unit of the n independent values."""

    mean: float
    half_width: float
    n: int

    @property
    def relative(self) -> float:
        """Half of the interval as a share of the mean; infinite where nothing is known."""
        if self.mean == 0:
            return 0.0 if self.half_width == 0 else math.inf
        return self.half_width / abs(self.mean)


def estimate(values: Sequence[float]) -> Estimate:
    """Estimate the mean of independent values by Student's distribution.

    >>> one = estimate([1.0, 2.0, 3.0])
    >>> round(one.mean, 3), round(one.half_width, 3), one.n
    (2.0, 2.484, 3)
    """
    n = len(values)
    if n < 2:
        return Estimate(float(values[0]) if n else math.nan, math.inf, n)
    error = float(np.std(values, ddof=1)) / math.sqrt(n)
    factor = float(stats.t.ppf(0.5 + _CONFIDENCE / 2, n - 1))
    return Estimate(float(np.mean(values)), factor * error, n)


def ratio(over: Sequence[float], under: Sequence[float]) -> Estimate:
    """Estimate a ratio from pairs of values that were taken together."""
    return estimate([a / b for a, b in zip(over, under, strict=True) if b > 0])


def ratio_bounds(over: Sequence[float], under: Sequence[float]) -> tuple[float, float]:
    """Bound a ratio by the 95 % interval of the logarithms of pairs that were taken together.

    Ratios of short times scatter by factors: an interval of their mean can reach below 0 although
    each of them is large.

    >>> low, high = ratio_bounds([1000.0, 1500.0], [1.0, 1.0])
    >>> 10 < low < 1000 < high
    True
    """
    logs = estimate([math.log(a / b) for a, b in zip(over, under, strict=True) if a > 0 and b > 0])
    if not math.isfinite(logs.half_width):
        return 0.0, math.inf
    return math.exp(logs.mean - logs.half_width), math.exp(logs.mean + logs.half_width)


def thinned(values: Sequence[float], most: int) -> list[float]:
    """At most so many values of about the same distribution and mean: means of groups, sorted.

    >>> thinned([4.0, 1.0, 3.0, 2.0], 2)
    [1.5, 3.5]
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    if len(ordered) <= most:
        return [float(value) for value in ordered]
    return [float(group.mean()) for group in np.array_split(ordered, most)]


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return some quantiles of values, by name."""
    shares = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    return {f"p{round(share * 100)}": float(np.quantile(values, share)) for share in shares}
