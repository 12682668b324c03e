"""The published model and the full factorial one: least squares on products of a load's numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from intarsia.characterise.load import OUTSTANDING, Floats, Points
from intarsia.characterise.model import terms
from intarsia.characterise.model.base import Band, Samples

Interval = Literal["printed", "prediction"]


@dataclass(frozen=True)
class LinearModel:
    """Latency as a sum of products, with the interval as printed or as it should have been."""

    terms: tuple[str, ...]
    coefficients: Floats
    has_intercept: bool
    sigma_ms: float
    count: int
    covariance: Floats
    """Of the coefficients, over the residual variance."""
    kind: Interval = "prediction"

    def predict(self, points: Points) -> Floats:
        """Return the mean latency of each load, in ms."""
        return self._design(points) @ self.coefficients

    def interval(self, points: Points, confidence: float) -> Band:
        """Return the interval: `printed` is that of a mean and covers far too little."""
        mean = self.predict(points)
        if self.kind == "printed":
            quantile = stats.norm.ppf((1 + confidence) / 2)
            half = np.full(len(mean), quantile * self.sigma_ms / np.sqrt(self.count))
        else:
            freedom = self.count - len(self.coefficients)
            design = self._design(points)
            spread = 1 + np.einsum("ij,jk,ik->i", design, self.covariance, design)
            half = stats.t.ppf((1 + confidence) / 2, freedom) * self.sigma_ms * np.sqrt(spread)
        return Band(mean - half, mean, mean + half)

    def slope(self, points: Points) -> Floats:
        """Return ms for each outstanding request; its inverse is the throughput (per ms)."""
        return self.predict(points) / points[:, OUTSTANDING]

    def _design(self, points: Points) -> Floats:
        made = terms.columns(points, self.terms)
        return np.column_stack([np.ones(len(made)), made]) if self.has_intercept else made


def from_coefficients(table: dict[str, float]) -> LinearModel:
    """Return the model of published coefficients, without an interval of its own."""
    size = len(table)
    values = np.array(list(table.values()))
    return LinearModel(tuple(table), values, False, 0.0, size + 1, np.zeros((size, size)))


def fit_published(samples: Samples, kind: Interval = "printed") -> LinearModel:
    """Fit the published model: terms by analysis of variance, least squares in ms, no intercept."""
    chosen = terms.select(samples.points, samples.latency_ms)
    return _fit(samples, chosen, has_intercept=False, kind=kind)


def fit_factorial(samples: Samples) -> LinearModel:
    """Fit all 15 products and an intercept."""
    return _fit(samples, terms.ALL, has_intercept=True, kind="prediction")


def fit_weighted(samples: Samples) -> LinearModel:
    """Fit the published form to relative errors, with terms that help on left-out loads."""
    chosen: tuple[str, ...] = ("O",)
    best = _left_out_error(samples, chosen)
    candidates = [term for term in terms.ALL if "O" in term and term != "O"]
    while candidates:
        tried = {term: _left_out_error(samples, (*chosen, term)) for term in candidates}
        term = min(tried, key=lambda one: tried[one])
        if tried[term] > 0.995 * best:
            break
        chosen, best = (*chosen, term), tried[term]
        candidates.remove(term)
    weights = 1 / np.maximum(samples.latency_ms, 1e-6)
    return _fit(samples, chosen, has_intercept=False, kind="prediction", weights=weights)


def _left_out_error(samples: Samples, chosen: tuple[str, ...], folds: int = 5) -> float:
    design = terms.columns(samples.points, chosen) / samples.latency_ms[:, None]
    fold = np.arange(len(samples)) % folds
    errors = np.empty(len(samples))
    for one in range(folds):
        rest = fold != one
        fitted = np.linalg.lstsq(design[rest], np.ones(rest.sum()), rcond=None)[0]
        errors[~rest] = design[~rest] @ fitted - 1
    return float(np.sqrt(np.mean(errors**2)))


def _fit(
    samples: Samples,
    chosen: tuple[str, ...],
    *,
    has_intercept: bool,
    kind: Interval,
    weights: Floats | None = None,
) -> LinearModel:
    design = terms.columns(samples.points, chosen)
    if has_intercept:
        design = np.column_stack([np.ones(len(design)), design])
    weight = np.ones(len(design)) if weights is None else weights
    # Columns differ by ten orders of magnitude: scaled, the solution keeps its digits.
    scale = np.abs(design * weight[:, None]).max(axis=0)
    scale[scale == 0] = 1.0
    scaled = design * weight[:, None] / scale
    solution = np.linalg.lstsq(scaled, samples.latency_ms * weight, rcond=None)[0]
    coefficients = solution / scale
    residual = samples.latency_ms - design @ coefficients
    freedom = max(len(samples) - design.shape[1], 1)
    covariance = np.linalg.pinv(scaled.T @ scaled) / np.outer(scale, scale)
    sigma = float(np.sqrt(residual @ residual / freedom))
    return LinearModel(chosen, coefficients, has_intercept, sigma, len(samples), covariance, kind)
