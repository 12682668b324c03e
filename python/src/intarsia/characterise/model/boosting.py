"""Gradient boosting, with split conformal intervals: what one takes from the shelf."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from intarsia.characterise.load import OUTSTANDING, Floats, Points
from intarsia.characterise.model import conformal
from intarsia.characterise.model.base import Band, Samples


@dataclass(frozen=True)
class BoostingModel:
    """Trees that predict the logarithm of the latency, growing with the outstanding requests."""

    trees: HistGradientBoostingRegressor
    scores: Floats

    def predict(self, points: Points) -> Floats:
        """Return the mean latency of each load, in ms."""
        return np.asarray(np.exp(self.trees.predict(points)), dtype=np.float64)

    def interval(self, points: Points, confidence: float) -> Band:
        """Return an interval of the same relative width everywhere."""
        mean = self.predict(points)
        factor = np.exp(conformal.quantile(self.scores, confidence))
        return Band(mean / factor, mean, mean * factor)


def fit_boosting(samples: Samples, seed: int = 7) -> BoostingModel:
    """Fit the trees to four fifths of the loads and the interval to the others."""
    is_left_out = conformal.folds(len(samples), 5, seed) == 0
    constraint = np.zeros(4, dtype=int)
    constraint[OUTSTANDING] = 1
    trees = HistGradientBoostingRegressor(
        max_iter=150, learning_rate=0.12, monotonic_cst=constraint, random_state=seed
    )
    trees.fit(samples.points[~is_left_out], np.log(samples.latency_ms[~is_left_out]))
    guessed = trees.predict(samples.points[is_left_out])
    return BoostingModel(trees, np.abs(np.log(samples.latency_ms[is_left_out]) - guessed))
