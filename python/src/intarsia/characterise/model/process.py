"""Our model of a store: a Gaussian process over loads, with conformal intervals.

It predicts the logarithm of the latency for each outstanding request, as what is left over of a
coarse `trend`. What is smooth in a load's numbers it follows without a choice of terms; how far a
load is from measured ones it knows; and because errors on left-out loads set the width of the
interval, the interval covers what it says whether or not the process is a true description.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from intarsia.characterise.errors import CharacteriseError, OutsideError
from intarsia.characterise.load import (
    BYTES,
    OUTSTANDING,
    RANDOM,
    READ,
    Floats,
    Mask,
    Numbers,
    Points,
)
from intarsia.characterise.model import conformal, trend
from intarsia.characterise.model.base import Band, Samples

LEAST = 40
"""Fewer measured loads are refused."""
_TUNED_ON = 256
"""At most so many loads choose the hyperparameters, and half of all; the others tell the errors."""
_FOLDS = 10
_ROOM = 1.25
"""Beyond the measured sizes and depths by this factor it still predicts."""


def features(points: Points) -> Floats:
    """Return what the process sees of each load.

    A share near 0 or 100 % changes more than one in the middle, so each has a linear and a
    logarithmic coordinate. Requests that are no whole pages cost more than their neighbours.
    """
    random, write = points[:, RANDOM] / 100, 1 - points[:, READ] / 100
    return np.column_stack(
        [
            random,
            np.log1p(25 * random) / np.log(26),
            write,
            np.log1p(25 * write) / np.log(26),
            np.log2(points[:, BYTES]) / 5,
            np.log2(points[:, OUTSTANDING]) / 5,
            4 * np.log(trend.pages_over_bytes(points)),
        ]
    )


@dataclass(frozen=True)
class Kernel:
    """Hyperparameters: variances of signal and noise, and a length for each feature."""

    signal: float
    noise: float
    lengths: tuple[float, ...]

    def between(self, one: Floats, other: Floats) -> Floats:
        """Return the covariances (Matérn, 5/2)."""
        scale = np.array(self.lengths)
        left, right = one / scale, other / scale
        squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
        distance = np.sqrt(5 * np.maximum(squares, 0))
        covariance: Floats = self.signal * (1 + distance + distance**2 / 3) * np.exp(-distance)
        return covariance


@dataclass(frozen=True)
class _Posterior:
    kernel: Kernel
    inputs: Floats
    centre: float
    factor: Floats
    weights: Floats

    @classmethod
    def of(cls, kernel: Kernel, inputs: Floats, targets: Floats) -> _Posterior:
        covariance = kernel.between(inputs, inputs)
        covariance[np.diag_indices_from(covariance)] += kernel.noise + 1e-9 * kernel.signal
        factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        centre = float(targets.mean())
        return cls(kernel, inputs, centre, factor, cho_solve((factor, True), targets - centre))

    def at(self, inputs: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation, noise included."""
        across = self.kernel.between(self.inputs, inputs)
        solved = solve_triangular(self.factor, across, lower=True)
        variance = self.kernel.signal + self.kernel.noise - (solved**2).sum(0)
        return self.centre + across.T @ self.weights, np.sqrt(np.maximum(variance, 1e-12))


@dataclass(frozen=True)
class StoreModel:
    """A fitted model of one store."""

    samples: Samples
    kernel: Kernel
    times: Floats
    """Of the `trend`."""
    scores: Floats
    """Errors on left-out loads over the process's own standard deviation."""
    mixed_scores: Floats = field(default_factory=lambda: np.empty(0))
    """The same for several loads together; see `aggregate`."""
    mixed_shift: float = 0.0
    """By which the logarithm is corrected for several loads together."""
    mixed_rule: str = "demand"
    """The rule of `aggregate` by which loads are merged."""
    _posterior: _Posterior = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        targets = _targets(self.samples, self.times)
        made = _Posterior.of(self.kernel, features(self.samples.points), targets)
        object.__setattr__(self, "_posterior", made)

    def predict(self, points: Points) -> Floats:
        """Return the mean latency of each load, in ms."""
        return np.exp(self.logarithm(points)[0])

    def interval(self, points: Points, confidence: float) -> Band:
        """Return the mean latency of each load, and where a new measurement of it will lie."""
        mean, deviation = self.logarithm(points)
        half = conformal.quantile(self.scores, confidence) * deviation
        return Band(np.exp(mean - half), np.exp(mean), np.exp(mean + half))

    def logarithm(self, points: Points) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the logarithm of the latency."""
        mean, deviation = self._posterior.at(features(points))
        coarse = trend.logarithm(self.times, points) + np.log(points[:, OUTSTANDING])
        return mean + coarse, deviation

    def is_inside(self, points: Points) -> Mask:
        """Return which loads lie where the store was measured."""
        measured = self.samples.points
        inside = np.ones(len(points), dtype=bool)
        for column in (BYTES, OUTSTANDING):
            low, high = measured[:, column].min(), measured[:, column].max()
            inside &= (points[:, column] >= low / _ROOM) & (points[:, column] <= high * _ROOM)
        return inside

    def require_inside(self, points: Points) -> None:
        """Raise `OutsideError` when a load lies outside what was measured."""
        measured = self.samples.points
        for row in points[~self.is_inside(points)][:1]:
            sizes, depths = measured[:, BYTES], measured[:, OUTSTANDING]
            raise OutsideError(
                f"a load of {row[BYTES]:g} bytes and {row[OUTSTANDING]:g} outstanding requests "
                "lies "
                f"outside what was measured ({sizes.min():g} to {sizes.max():g} bytes, "
                f"{depths.min():g} to {depths.max():g} outstanding): measure the store there too"
            )

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "model": "gaussian-process",
            "points": self.samples.points.tolist(),
            "latency_ms": self.samples.latency_ms.tolist(),
            "signal": self.kernel.signal,
            "noise": self.kernel.noise,
            "lengths": list(self.kernel.lengths),
            "times_ms": self.times.tolist(),
            "scores": self.scores.tolist(),
            "mixed_scores": self.mixed_scores.tolist(),
            "mixed_shift": self.mixed_shift,
            "mixed_rule": self.mixed_rule,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> StoreModel:
        """Return the model of `as_json`; raises `CharacteriseError` when it is none."""
        try:
            return cls(
                Samples(np.array(data["points"]), np.array(data["latency_ms"])),
                Kernel(data["signal"], data["noise"], tuple(data["lengths"])),
                np.array(data["times_ms"]),
                np.array(data["scores"]),
                np.array(data["mixed_scores"]),
                float(data["mixed_shift"]),
                str(data["mixed_rule"]),
            )
        except (KeyError, TypeError, ValueError, np.linalg.LinAlgError) as error:
            raise CharacteriseError(
                f"this is no model of a store ({error!r}); fit it again"
            ) from error


def fit(samples: Samples, seed: int = 7) -> StoreModel:
    """Fit our model to measured loads.

    Raises `CharacteriseError` when there are too few, or a latency is not above zero.
    """
    if len(samples) < LEAST:
        raise CharacteriseError(
            f"{len(samples)} measured loads are too few for a model: measure {LEAST} at least"
        )
    if not (np.isfinite(samples.latency_ms).all() and (samples.latency_ms > 0).all()):
        raise CharacteriseError("a measured latency is not above 0 ms: are the samples complete?")
    order = np.random.default_rng(seed).permutation(len(samples))
    count = min(_TUNED_ON, len(samples) // 2)
    kernel = _tune(samples.part(order[:count]), seed)
    scores = _scores(samples, kernel, order[count:], seed)
    return StoreModel(samples, kernel, trend.fit(samples), scores)


def _targets(samples: Samples, times: Floats) -> Floats:
    """Return what the trend leaves over of the logarithm for each outstanding request."""
    slope = samples.latency_ms / samples.points[:, OUTSTANDING]
    return np.asarray(np.log(slope) - trend.logarithm(times, samples.points), dtype=np.float64)


def _scores(samples: Samples, kernel: Kernel, judged: Numbers, seed: int) -> Floats:
    """Return the error of each judged load by a model without it, over that model's own deviation.

    The hyperparameters come from other loads than these. Else the errors would be smaller than
    those of new loads, and intervals too narrow.
    """
    fold = conformal.folds(len(judged), _FOLDS, seed)
    scores = np.empty(len(judged))
    for one in range(_FOLDS):
        is_rest = np.ones(len(samples), dtype=bool)
        is_rest[judged[fold == one]] = False
        rest, out = samples.part(is_rest), samples.part(judged[fold == one])
        times = trend.fit(rest)
        posterior = _Posterior.of(kernel, features(rest.points), _targets(rest, times))
        mean, deviation = posterior.at(features(out.points))
        scores[fold == one] = np.abs(_targets(out, times) - mean) / deviation
    return scores


def _tune(samples: Samples, seed: int) -> Kernel:
    """Find the hyperparameters by maximum likelihood."""
    # Only fitting needs it, and importing it takes longer than a prediction.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    inputs, targets = features(samples.points), _targets(samples, trend.fit(samples))
    size = inputs.shape[1]
    start = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(
        np.ones(size), (0.1, 50.0), nu=2.5
    ) + WhiteKernel(1e-2, (1e-5, 1.0))
    process = GaussianProcessRegressor(start, normalize_y=False, random_state=seed)
    with warnings.catch_warnings():
        # A length at its bound means that a feature does not matter.
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(inputs, targets - targets.mean())
    signal, noise = process.kernel_.k1, process.kernel_.k2
    return Kernel(
        float(signal.k1.constant_value),
        float(noise.noise_level),
        tuple(float(one) for one in np.atleast_1d(signal.k2.length_scale)),
    )
