"""Goodness of fit, by a parametric bootstrap because the parameters were estimated from the data.

The tables of Kolmogorov and Smirnov hold for a distribution fixed beforehand; with estimated
parameters they accept far too much. So each resample is drawn from the fitted distribution, fitted
anew, and its statistic compared (`scipy.stats.goodness_of_fit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from intarsia.simulate.failures.fit import Family, Fit
from intarsia.simulate.failures.gaps import Hours

DEFAULT_RESAMPLES = 199


@dataclass(frozen=True)
class Goodness:
    """Statistics and p-values of Kolmogorov–Smirnov and Anderson–Darling.

    A p-value cannot be less than 1 / (`resamples` + 1).
    """

    ks: float
    ks_p: float
    ad: float
    ad_p: float
    resamples: int


# Both statistics are unchanged when data and distribution go through the same increasing function.
# The logarithm turns Weibull into Gumbel and log-normal into normal, which scipy fits at once.
_TESTED: dict[Family, tuple[Any, Callable[[Hours], Any], dict[str, float]]] = {
    Family.EXPONENTIAL: (stats.expon, np.asarray, {"loc": 0}),
    Family.WEIBULL: (stats.gumbel_l, np.log, {}),
    Family.LOG_NORMAL: (stats.norm, np.log, {}),
    Family.GAMMA: (stats.gamma, np.asarray, {"loc": 0}),
}


def goodness(fit: Fit, resamples: int = DEFAULT_RESAMPLES, seed: int = 1) -> Goodness | None:
    """Test `fit` against its gaps; `None` when gaps are censored, which these tests cannot take."""
    if len(fit.gaps.censored_hours) > 0:
        return None
    family, transform, known = _TESTED[fit.family]

    def test(statistic: str) -> Any:
        return stats.goodness_of_fit(
            family,
            transform(fit.gaps.hours),
            known_params=known,
            statistic=statistic,
            n_mc_samples=resamples,
            rng=np.random.default_rng(seed),
        )

    ks, ad = test("ks"), test("ad")
    return Goodness(
        ks=float(ks.statistic),
        ks_p=float(ks.pvalue),
        ad=float(ad.statistic),
        ad_p=float(ad.pvalue),
        resamples=resamples,
    )
