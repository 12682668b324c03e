"""A model that goes on learning from what a store does in production.

The measured model stays; beside it a small regression of its errors is updated with every sample,
and forgets old ones. The width of the interval follows what it covered lately (adaptive conformal
inference, Gibbs and Candès 2021), and a cumulated sum of errors tells when the store has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from intarsia.characterise.load import Floats, Load, Points, points_of
from intarsia.characterise.model.base import Band
from intarsia.characterise.model.conformal import Scores
from intarsia.characterise.model.gaussian import features
from intarsia.characterise.model.process import StoreModel

_INPUTS = 8
_STEP = 0.02
_RECENT = 400


@dataclass
class OnlineModel:
    """A store's model with corrections from live samples."""

    base: StoreModel
    confidence: float = 0.9
    memory: float = 0.995
    """What a sample still counts when the next one comes: 0.995 remembers about 200."""
    prior: float = 20.0
    """How many samples the measured model counts for."""
    alarm: float = 12.0
    """Cumulated standardised error at which the store has changed."""
    drifted_at: int | None = None
    """The sample at which it did, counted from 1."""
    seen: int = 0
    _precision: Floats = field(init=False)
    _moment: Floats = field(init=False)
    _miss: float = field(init=False)
    _scores: Scores = field(init=False)
    _rise: float = 0.0
    _fall: float = 0.0

    def __post_init__(self) -> None:
        self._precision = self.prior * np.eye(_INPUTS)
        self._moment = np.zeros(_INPUTS)
        self._miss = 1 - self.confidence
        self._scores = self.base.scores

    def predict(self, points: Points) -> Floats:
        """Return the mean latency of each load, in ms."""
        return np.exp(self._logarithm(points)[0])

    def interval(self, points: Points) -> Band:
        """Return the mean latency of each load and its interval at the model's confidence."""
        mean, deviation = self._logarithm(points)
        half = self._width(mean) * deviation
        return Band(np.exp(mean - half), np.exp(mean), np.exp(mean + half))

    def update(self, load: Load, latency_ms: float) -> bool:
        """Learn from a sample; return whether the store has changed and should be measured anew."""
        point = points_of([load])
        mean, deviation = self._logarithm(point)
        error = float(np.log(latency_ms) - mean[0])
        score = error / float(deviation[0])
        self.seen += 1
        self._watch(point, latency_ms)
        is_missed = abs(score) > float(self._width(mean)[0])
        self._miss = float(
            np.clip(self._miss + _STEP * (1 - self.confidence - is_missed), 0.001, 0.5)
        )
        self._scores = self._scores.followed_by(score, float(mean[0]), _RECENT)
        self._learn(point, latency_ms)
        return self.drifted_at is not None

    def _learn(self, point: Points, latency_ms: float) -> None:
        inputs = _inputs(point)[0]
        residual = float(np.log(latency_ms) - self.base.logarithm(point)[0][0])
        anchor = (1 - self.memory) * self.prior * np.eye(_INPUTS)
        self._precision = self.memory * self._precision + anchor + np.outer(inputs, inputs)
        self._moment = self.memory * self._moment + residual * inputs

    def _watch(self, point: Points, latency_ms: float) -> None:
        """Add to the cumulated sums (CUSUM) of errors of the model as it was measured."""
        mean, deviation = self.base.logarithm(point)
        scale = float((self.base.scores.quantile(mean, 0.6827) * deviation)[0])
        error = float(np.clip((np.log(latency_ms) - mean[0]) / max(scale, 0.02), -4, 4))
        self._rise = max(0.0, self._rise + error - 1.0)
        self._fall = max(0.0, self._fall - error - 1.0)
        if self.drifted_at is None and max(self._rise, self._fall) > self.alarm:
            self.drifted_at = self.seen

    def _logarithm(self, points: Points) -> tuple[Floats, Floats]:
        mean, deviation = self.base.logarithm(points)
        return mean + _inputs(points) @ np.linalg.solve(self._precision, self._moment), deviation

    def _width(self, mean: Floats) -> Floats:
        return self._scores.quantile(mean, 1 - self._miss)


def _inputs(points: Points) -> Floats:
    return np.column_stack([np.ones(len(points)), features(points)])
