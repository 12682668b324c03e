"""Our model of a store: Gaussian processes over loads, with conformal intervals.

They predict the logarithm of the latency for each outstanding request, as what is left over of a
coarse `trend`. What is smooth in a load's numbers they follow without a choice of terms; how far a
load is from measured ones they know; and because errors on left-out loads set the width of the
interval, the interval covers what it says whether or not the processes are a true description.

There are four, whose hyperparameters come from different halves of the loads, and their mean
predicts: it errs less than any of them. A left-out load is judged by the mean of those processes
that were not tuned on it (jackknife+ after bootstrap: Kim, Xu and Barber 2020, with halves in
place of bootstrap samples), so every load has an error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from intarsia.characterise.errors import CharacteriseError, OutsideError
from intarsia.characterise.load import BYTES, OUTSTANDING, Floats, Mask, Points
from intarsia.characterise.model import conformal, trend
from intarsia.characterise.model.base import Band, Samples
from intarsia.characterise.model.conformal import Scores
from intarsia.characterise.model.gaussian import Kernel, LeftOut, Posterior, features, tune

LEAST = 40
"""Fewer measured loads are refused."""
_TUNED_ON = 256
"""At most so many loads choose hyperparameters, and half of all."""
_HALVINGS = 2
"""How often the loads are halved; each half gives a process."""
_FOLDS = 20
_ROOM = 1.25
"""Beyond the measured sizes and depths by this factor it still predicts."""


@dataclass(frozen=True)
class StoreModel:
    """A fitted model of one store."""

    samples: Samples
    kernels: tuple[Kernel, ...]
    times: Floats
    """Of the `trend`."""
    scores: Scores
    """Errors on left-out loads over the processes' own standard deviation."""
    shift: float = 0.0
    """By which the logarithm is corrected after a `check`."""
    mixed_scores: Scores | None = None
    """The same for several loads together; see `aggregate`."""
    mixed_shift: float = 0.0
    """By which the logarithm is corrected for several loads together."""
    mixed_rule: str = "demand"
    """The rule of `aggregate` by which loads are merged."""
    _posteriors: tuple[Posterior, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        targets = _targets(self.samples, self.times)
        inputs = features(self.samples.points)
        made = tuple(Posterior.of(kernel, inputs, targets) for kernel in self.kernels)
        object.__setattr__(self, "_posteriors", made)

    def predict(self, points: Points) -> Floats:
        """Return the mean latency of each load, in ms."""
        return np.exp(self.logarithm(points)[0])

    def interval(self, points: Points, confidence: float) -> Band:
        """Return the mean latency of each load, and where a new measurement of it will lie."""
        mean, deviation = self.logarithm(points)
        half = self.scores.quantile(mean, confidence) * deviation
        return Band(np.exp(mean - half), np.exp(mean), np.exp(mean + half))

    def logarithm(self, points: Points) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the logarithm of the latency."""
        mean, deviation = np.mean(_each(self._posteriors, points), axis=0)
        coarse = trend.logarithm(self.times, points) + np.log(points[:, OUTSTANDING])
        return mean + coarse + self.shift, deviation

    def is_inside(self, points: Points) -> Mask:
        """Return which loads lie where the store was measured."""
        return is_inside(self.samples, points)

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
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "times_ms": self.times.tolist(),
            "scores": self.scores.as_json(),
            "shift": self.shift,
            "mixed_scores": None if self.mixed_scores is None else self.mixed_scores.as_json(),
            "mixed_shift": self.mixed_shift,
            "mixed_rule": self.mixed_rule,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> StoreModel:
        """Return the model of `as_json`; raises `CharacteriseError` when it is none."""
        try:
            return cls(
                Samples(np.array(data["points"]), np.array(data["latency_ms"])),
                tuple(Kernel.from_json(one) for one in data["kernels"]),
                np.array(data["times_ms"]),
                Scores.from_json(data["scores"]),
                float(data["shift"]),
                None if data["mixed_scores"] is None else Scores.from_json(data["mixed_scores"]),
                float(data["mixed_shift"]),
                str(data["mixed_rule"]),
            )
        except (KeyError, TypeError, ValueError, np.linalg.LinAlgError) as error:
            raise CharacteriseError(
                f"this is no model of a store ({error!r}); fit it again"
            ) from error


def is_inside(measured: Samples, points: Points) -> Mask:
    """Return for which loads a model of these samples stands."""
    inside = np.ones(len(points), dtype=bool)
    for column in (BYTES, OUTSTANDING):
        low, high = measured.points[:, column].min(), measured.points[:, column].max()
        inside &= (points[:, column] >= low / _ROOM) & (points[:, column] <= high * _ROOM)
    return inside


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
    parts = _tuning_parts(len(samples), seed)
    # A few hundred rows are too few to share out: threads would wait for each other.
    with threadpool_limits(1):
        kernels = tuple(
            tune(features(part.points), _targets(part, trend.fit(part)), seed)
            for part in (samples.part(is_mine) for is_mine in parts)
        )
        scores = _scores(samples, kernels, np.array(parts), seed)
    return StoreModel(samples, kernels, trend.fit(samples), scores)


def _tuning_parts(count: int, seed: int) -> list[Mask]:
    """Return the loads that tune each process: of each halving two parts without a common load."""
    parts = []
    for turn in range(_HALVINGS):
        order = np.random.default_rng([seed, turn]).permutation(count)
        size = min(_TUNED_ON, count // 2)
        for start in (0, size):
            is_mine = np.zeros(count, dtype=bool)
            is_mine[order[start : start + size]] = True
            parts.append(is_mine)
    return parts


def _targets(samples: Samples, times: Floats) -> Floats:
    """Return what the trend leaves over of the logarithm for each outstanding request."""
    slope = samples.latency_ms / samples.points[:, OUTSTANDING]
    return np.asarray(np.log(slope) - trend.logarithm(times, samples.points), dtype=np.float64)


def _each(posteriors: tuple[Posterior, ...], points: Points) -> Floats:
    """Return mean and deviation by each process: processes, the two, loads."""
    inputs = features(points)
    return np.array([posterior.at(inputs) for posterior in posteriors])


def _scores(samples: Samples, kernels: tuple[Kernel, ...], is_tuned_on: Mask, seed: int) -> Scores:
    """Return the error of each load by a model without it, over that model's own deviation.

    Its processes are those whose hyperparameters (rows of `is_tuned_on`) come from other loads, and
    its trend has not seen the load. Else the errors would be smaller than those of new loads, and
    intervals too narrow.
    """
    inputs = features(samples.points)
    left_out = [LeftOut.of(kernel, inputs) for kernel in kernels]
    weights = (~is_tuned_on).astype(float)
    fold = conformal.folds(len(samples), _FOLDS, seed)
    values, at = np.empty(len(samples)), np.empty(len(samples))
    for one in range(_FOLDS):
        is_out = fold == one
        targets = _targets(samples, trend.fit(samples.part(~is_out)))
        found = np.array([each.at(targets) for each in left_out])[:, :, is_out]
        part = np.broadcast_to(weights[:, None, is_out], found.shape)
        mean, deviation = np.average(found, axis=0, weights=part)
        error = targets[is_out] - mean
        values[is_out] = error / deviation
        at[is_out] = np.log(samples.latency_ms[is_out]) - error
    return Scores(values, at)
