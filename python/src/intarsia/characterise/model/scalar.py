"""Baselines that know a store by one number: Basil and Pesto."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import BYTES, OUTSTANDING, RANDOM, READ, Floats, Mask, Points
from intarsia.characterise.model.base import Band, Samples
from intarsia.characterise.published import BASIL_RECALLED

Constants = tuple[float, float, float, float]


@dataclass(frozen=True)
class PestoModel:
    """Latency as a constant for each outstanding request, measured with small random reads."""

    slope_ms: float

    def predict(self, points: Points) -> Floats:
        """Return the mean latency of each load, in ms."""
        return self.slope_ms * points[:, OUTSTANDING]

    def interval(self, points: Points, confidence: float) -> Band:
        """Return the prediction alone: this model says nothing of its error."""
        mean = self.predict(points)
        return Band(mean, mean, mean)


@dataclass(frozen=True)
class BasilModel:
    """Latency as a load's weight, the same on all stores, times a number of the store."""

    constants: Constants
    scale_ms: float

    def predict(self, points: Points) -> Floats:
        """Return the mean latency of each load, in ms."""
        return self.scale_ms * weight(points, self.constants)

    def interval(self, points: Points, confidence: float) -> Band:
        """Return the prediction alone: this model says nothing of its error."""
        mean = self.predict(points)
        return Band(mean, mean, mean)


def weight(points: Points, constants: Constants) -> Floats:
    """Return the weight of each load: (K1 + O)(K2 + KiB)(K3 + read)(K4 + random)."""
    depth, size, read, random = constants
    return (
        (depth + points[:, OUTSTANDING])
        * (size + points[:, BYTES] / 1024)
        * (read + points[:, READ] / 100)
        * (random + points[:, RANDOM] / 100)
    )


def fit_pesto(samples: Samples) -> PestoModel:
    """Measure the slope over 4 KiB random reads, or over the loads that are nearest to them."""
    points = samples.points
    distance = (
        (100 - points[:, RANDOM]) / 100
        + (100 - points[:, READ]) / 100
        + np.abs(np.log2(points[:, BYTES] / 4096)) / 4
    )
    is_near = distance <= max(0.0, float(np.sort(distance)[min(7, len(distance) - 1)]))
    return PestoModel(_slope(samples, is_near))


def fit_basil(
    pool: Mapping[str, Samples], constants: Constants | None = None
) -> dict[str, BasilModel]:
    """Fit the weights over all stores together and give each store its share.

    With `constants` (such as `BASIL_RECALLED`) only the scale is fitted. The number of a store is
    its slope over small random reads, as published: reads, not above 32 KiB, not above 90 %
    sequential.
    """
    slopes = {name: _read_slope(samples) for name, samples in pool.items()}
    points = np.vstack([samples.points for samples in pool.values()])
    latency = np.concatenate([samples.latency_ms for samples in pool.values()])
    relative = np.concatenate([np.full(len(s), slopes[name]) for name, s in pool.items()])
    fitted = _fit_constants(points, latency, relative) if constants is None else constants
    base = weight(points, fitted) * relative
    scale = float(base @ latency / (base @ base))
    return {name: BasilModel(fitted, scale * slope) for name, slope in slopes.items()}


def _fit_constants(points: Points, latency: Floats, relative: Floats) -> Constants:
    def residual(logarithms: Floats) -> Floats:
        base = weight(points, _constants(logarithms)) * relative
        return (base @ latency / (base @ base)) * base - latency

    start = np.log(BASIL_RECALLED)
    limits = (np.full(4, -6.0), np.full(4, 9.0))
    found = optimize.least_squares(residual, start, bounds=limits, x_scale=1.0)
    return _constants(found.x)


def _constants(logarithms: Floats) -> Constants:
    depth, size, read, random = (float(one) for one in np.exp(logarithms))
    return depth, size, read, random


def _read_slope(samples: Samples) -> float:
    points = samples.points
    chosen = (points[:, READ] >= 75) & (points[:, BYTES] <= 32 * 1024) & (points[:, RANDOM] > 10)
    if chosen.sum() < 3:
        raise CharacteriseError(
            "Basil needs 3 measured loads at least that read, with requests up to 32 KiB and more "
            "than 10 % random; measure more loads"
        )
    return _slope(samples, chosen)


def _slope(samples: Samples, chosen: Mask) -> float:
    depth, latency = samples.points[chosen, OUTSTANDING], samples.latency_ms[chosen]
    return float(depth @ latency / (depth @ depth))
