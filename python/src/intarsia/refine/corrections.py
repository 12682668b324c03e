"""Factors by which a profile is corrected, from comparisons, with bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: No factor leaves these bounds: what is further off is another machine, not a correction.
BOUNDS = (0.25, 4.0)
#: A run that is further off than this tells of something else, and is left out.
OUTLIER = 10.0
#: The profile itself counts as so many runs without an error.
PRIOR_RUNS = 1.0


@dataclass(frozen=True, slots=True)
class Correction:
    """How much longer a kind of work takes than the profile says, by `runs` of them.

    `low` and `high` are the least and the most of these runs; `left_out` were too far off.
    """

    factor: float
    runs: int
    low: float
    high: float
    left_out: int = 0


def correction(ratios: Iterable[float]) -> Correction | None:
    """Return the factor from ratios of actual to predicted; None where there are none.

    It is the geometric mean of the ratios and of a prior of one run that was foretold exactly, so
    that one run alone moves it half the way (in logarithms), within `BOUNDS`.

    >>> correction([4.0]).factor, correction([]) is None
    (2.0, True)
    """
    every = [ratio for ratio in ratios if ratio > 0 and math.isfinite(ratio)]
    used = [ratio for ratio in every if 1 / OUTLIER <= ratio <= OUTLIER]
    if not every:
        return None
    factor = math.exp(sum(map(math.log, used)) / (len(used) + PRIOR_RUNS))
    return Correction(
        min(max(factor, BOUNDS[0]), BOUNDS[1]),
        len(used),
        min(used, default=1.0),
        max(used, default=1.0),
        len(every) - len(used),
    )
