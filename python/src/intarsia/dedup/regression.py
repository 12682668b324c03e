"""A straight line with its diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x, by least squares."""

    intercept: float
    slope: float
    r: float
    p: float
    """Of the hypothesis that the slope is 0, two-sided."""
    residuals: Values
    leverage: Values
    cook: Values
    """Cook's distance: how far the line moves without the point."""
    normal_p: float
    """Of the hypothesis that the residuals are normal (Shapiro-Wilk)."""

    def at(self, x: float) -> float:
        """Return the value on the line."""
        return self.intercept + self.slope * x


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Fit a line to at least three points that differ in x."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    found = stats.linregress(xs, ys)
    residuals = ys - (found.intercept + found.slope * xs)
    off = xs - xs.mean()
    leverage = 1 / len(xs) + off**2 / (off**2).sum()
    mean_square = (residuals**2).sum() / (len(xs) - 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        cook = residuals**2 / (2 * mean_square) * leverage / (1 - leverage) ** 2
    return Line(
        float(found.intercept),
        float(found.slope),
        float(found.rvalue),
        float(found.pvalue),
        residuals,
        leverage,
        np.nan_to_num(cook),
        float(stats.shapiro(residuals).pvalue),
    )
