"""The published tables, and the profiles of generated traces that follow from them.

Source: N. Park, Statistical characterization of storage workloads and its applications to
storage performance prediction and resource optimization, PhD thesis, University of Minnesota,
2013, chapter 7; and the paper behind it (IISWC 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

from intarsia.dedup.corpora.traces import FULLS, Profile


@dataclass(frozen=True)
class DataSet:
    """One row of the published tables 7.1, 7.3 and 7.4."""

    name: str
    segments: int
    ratio: float
    """Stored over logical after five fulls."""
    throughput: float
    """MB/s."""
    deviation: float
    """Mean deviation of the throughput from the regression, MB/s."""
    max_run: int
    mean_run: float
    share_in_long: float
    naive_error: float
    """Relative error of the ratio forecast by the change rate."""
    error: float
    """The same by usr and bgr."""

    @property
    def usr(self) -> float:
        """Average share of new content, if the first backup repeats nothing."""
        return (FULLS * self.ratio - 1) / (FULLS - 1)


DATA_SETS = (
    DataSet("exchange", 1_970_836, 0.294, 44.72, 0.217, 183_100, 30.53, 0.64, 0.1782, 0.0542),
    DataSet("exchange_is", 1_960_555, 0.377, 42.60, 1.375, 392_000, 15.88, 0.27, 0.0920, 0.0221),
    DataSet("exchange_mb", 1_951_271, 0.973, 27.20, -0.722, 7_490, 18.6, 0.13, 0.0014, 0.0020),
    DataSet("fredp4", 1_892_285, 0.502, 39.78, 1.532, 207_400, 7.944, 0.57, 0.3599, 0.0368),
    DataSet("fredvar", 1_922_420, 0.209, 48.36, 0.852, 366_200, 28.88, 0.76, 0.0735, 0.0021),
    DataSet("workstation", 1_966_577, 0.403, 38.92, -3.260, 5_632, 6.635, 0.09, 0.0361, 0.0061),
)
BY_NAME = {one.name: one for one in DATA_SETS}

# Which share of a first backup repeats itself: "a little is visible" for three of the six.
_WITHIN = {"fredp4": 0.02, "fredvar": 0.01, "workstation": 0.015}
# Whether what changes is what changed before: base grows for exchange_is and fredp4.
_HOT = {"exchange_is": 0.3, "fredp4": 0.1}


def profile(name: str) -> Profile:
    """Return how a generated trace must change to end with the published ratio and naive error.

    With d the naive rate, c the stored share of the first backup, f fresh and r returning:
    d = f + r, and 5 ratio = c + (f + r) + 3 f, as what returns was new once. Both equations are
    fitted, so neither the ratio nor the naive error of the generated traces proves anything. The
    scatter from week to week is half of what the published error would need if it came from
    scatter alone.
    """
    row = BY_NAME[name]
    within = _WITHIN.get(name, 0.002)
    naive = row.ratio * (1 + row.naive_error)
    changed = (FULLS * naive - 1) / (FULLS - 1)
    fresh = (FULLS * row.ratio - (1 - within) - changed) / (FULLS - 2)
    needed = row.error * FULLS * row.ratio / 2 / fresh / (1 - fresh)
    return Profile(
        name,
        fresh=fresh,
        returning=max(changed - fresh, 0.0),
        within=within,
        hot=_HOT.get(name, 0.95),
        scatter=needed / 2,
        mean_run=row.mean_run,
        long_share=row.share_in_long,
    )
