"""What our models say of loads together on a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia.characterise import aggregate
from intarsia.characterise.load import Load, points_of
from intarsia.characterise.model.process import StoreModel

_ONE_SIGMA = 0.6827


@dataclass(frozen=True)
class ModelPredictor:
    """Our models of the stores, by number."""

    models: Sequence[StoreModel]

    def __call__(self, store: int, loads: Sequence[Load]) -> float:
        """Return the mean latency of loads together, in ms; infinite outside their region."""
        mean, _ = self.logarithm(store, loads)
        return float(np.exp(mean))

    def logarithm(self, store: int, loads: Sequence[Load]) -> tuple[float, float]:
        """Return the logarithm of the latency and its standard deviation."""
        if not loads:
            return -np.inf, 0.0
        model = self.models[store]
        if not model.is_inside(points_of(together(loads))).all():
            return np.inf, 0.0
        band = aggregate.shared_latency(model, loads, _ONE_SIGMA)
        return float(np.log(band.mean_ms[0])), float(np.log(band.high_ms[0] / band.mean_ms[0]))


def together(loads: Sequence[Load]) -> list[Load]:
    """Return each load as a store sees it when all are on it: at the depth of all."""
    depth = sum(one.outstanding for one in loads)
    return [Load(one.random, one.read, one.bytes, depth) for one in loads]
