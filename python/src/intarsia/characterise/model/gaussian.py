"""Gaussian processes over loads: kernel, posterior, and hyperparameters by maximum likelihood.

Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006: equations 2.25 and 2.26 for
the posterior, 4.17 for the covariance (Matérn, 5/2), 5.8 for the likelihood, 5.12 for what is left
out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from intarsia.characterise.load import BYTES, OUTSTANDING, RANDOM, READ, Floats, Points
from intarsia.characterise.model import trend


def features(points: Points) -> Floats:
    """Return what a process sees of each load.

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

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Kernel:
        """Return the kernel of its fields as plain data."""
        return cls(float(data["signal"]), float(data["noise"]), tuple(data["lengths"]))

    def between(self, one: Floats, other: Floats) -> Floats:
        """Return the covariances (Matérn, 5/2)."""
        scale = np.array(self.lengths)
        left, right = one / scale, other / scale
        squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
        distance = np.sqrt(5 * np.maximum(squares, 0))
        covariance: Floats = self.signal * (1 + distance + distance**2 / 3) * np.exp(-distance)
        return covariance


@dataclass(frozen=True)
class Posterior:
    """What a kernel says of new loads, given measured ones."""

    kernel: Kernel
    inputs: Floats
    centre: float
    factor: Floats
    weights: Floats

    @classmethod
    def of(cls, kernel: Kernel, inputs: Floats, targets: Floats) -> Posterior:
        """Condition a kernel on measured loads."""
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
class LeftOut:
    """What a kernel says of each load, given all other ones."""

    inverse: Floats
    """Of the covariances of all loads, noise included."""

    @classmethod
    def of(cls, kernel: Kernel, inputs: Floats) -> LeftOut:
        """Invert the covariances, once for all targets."""
        every = Posterior.of(kernel, inputs, np.zeros(len(inputs)))
        return cls(np.asarray(cho_solve((every.factor, True), np.eye(len(inputs)))))

    def at(self, targets: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of each load by the others' targets."""
        precision = np.diag(self.inverse)
        gap = self.inverse @ (targets - targets.mean()) / precision
        return targets - gap, 1 / np.sqrt(precision)


def tune(inputs: Floats, targets: Floats, seed: int) -> Kernel:
    """Find the hyperparameters by maximum likelihood."""
    # Only fitting needs it, and importing it takes longer than a prediction.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

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
