"""The picture of a fit: what was recorded against what was fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lifelines import KaplanMeierFitter
from matplotlib.figure import Figure

from intarsia.simulate.failures.fit import Family, Fit
from intarsia.simulate.failures.gaps import Gaps
from intarsia.simulate.report.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    figure,
    percent_axis,
    style,
)

NAMES = {
    Family.EXPONENTIAL: "exponential",
    Family.WEIBULL: "Weibull",
    Family.LOG_NORMAL: "log-normal",
    Family.GAMMA: "gamma",
}
_COLOURS = {
    Family.EXPONENTIAL: ORANGE,
    Family.WEIBULL: BLUE,
    Family.LOG_NORMAL: VERMILION,
    Family.GAMMA: GREEN,
}
_DASHES = {
    Family.EXPONENTIAL: ":",
    Family.WEIBULL: "-",
    Family.LOG_NORMAL: "--",
    Family.GAMMA: "-.",
}


def fit_figure(gaps: Gaps, fits: Sequence[Fit], quantity: str = "gap") -> Figure:
    """Draw the distribution function and the quantiles, recorded against fitted.

    With censored gaps the recorded curve is that of Kaplan and Meier.
    """
    with style():
        made, (left, right) = figure(2)
        times, share = _recorded(gaps)
        left.step(times, 100 * share, where="post", color=BLACK, linewidth=2.4, alpha=0.55,
                  label=f"recorded (n = {len(gaps.hours)})")  # fmt: skip
        axis = np.geomspace(times.min(), times.max(), 300)
        # Quantiles that the records reach; a censored curve ends below one.
        inner = (share > 0) & (share < 1)
        for fit in fits:
            drawn: dict[str, Any] = {
                "color": _COLOURS[fit.family],
                "linestyle": _DASHES[fit.family],
                "label": NAMES[fit.family],
            }
            left.plot(axis, 100 * fit.distribution.cdf(axis), **drawn)
            right.plot(fit.distribution.ppf(share[inner]), times[inner], **drawn)
        left.set_xscale("log")
        left.set_xlabel(f"{quantity} (h)")
        percent_axis(left, f"{quantity}s up to this long (%)")
        left.set_title(f"{gaps.what}: distribution")
        left.legend(loc="upper left")
        limits = (times.min() / 1.5, times.max() * 1.5)
        right.plot(limits, limits, color=BLACK, linewidth=0.8, alpha=0.6)
        right.set(xscale="log", yscale="log", xlim=limits, ylim=limits)
        right.set_xlabel("fitted quantile (h)")
        right.set_ylabel("recorded quantile (h)")
        right.set_title("quantiles: the line is a perfect fit")
        return made


def _recorded(gaps: Gaps) -> tuple[np.ndarray, np.ndarray]:
    """Return the empirical distribution function at each distinct gap."""
    times = np.concatenate([gaps.hours, gaps.censored_hours])
    observed = np.arange(len(times)) < len(gaps.hours)
    curve = KaplanMeierFitter().fit(times, observed)
    table = curve.cumulative_density_
    inside = table.index > 0
    return table.index[inside].to_numpy(), table.to_numpy().ravel()[inside]
