"""Intervals that hold what they say: quantiles of errors on loads that were left out.

With one quantile for all loads an interval holds what it says over all of them, and too little for
those that are harder to predict than others, such as fast loads. So scores are dealt into parts by
the predicted latency, and each part has its own quantile (Mondrian conformal prediction: Vovk,
Gammerman and Shafer, Algorithmic Learning in a Random World, 2005, section 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.characterise.load import Floats, Numbers

_PARTS = 3
_LEAST_IN_PART = 40
"""With fewer scores the quantile of a part is too uncertain to be worth having."""


@dataclass(frozen=True)
class Scores:
    """Errors on left-out loads over the deviation that the model gave for each."""

    values: Floats
    """Above zero where the load took longer than predicted."""
    at: Floats
    """The predicted logarithm of each load's latency in ms, by which parts are told apart."""

    def __len__(self) -> int:
        return len(self.values)

    def as_json(self) -> dict[str, list[float]]:
        """Return them as plain data."""
        return {"values": self.values.tolist(), "at": self.at.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, list[float]]) -> Scores:
        """Return the scores of `as_json`."""
        return cls(np.array(data["values"]), np.array(data["at"]))

    def followed_by(self, value: float, at: float, memory: int) -> Scores:
        """Return the last `memory` of them and one more."""
        return Scores(np.append(self.values[-memory:], value), np.append(self.at[-memory:], at))

    def quantile(self, at: Floats, confidence: float) -> Floats:
        """Return what the size of a new score stays below, for each prediction.

        It does with the probability `confidence`. There are three parts at most, fewer when a part
        would have too few scores, or too few for this confidence. Infinite when all together are
        too few.
        """
        parts = max(1, min(_PARTS, len(self) // _LEAST_IN_PART))
        while parts > 1 and not _is_enough(len(self) // parts, confidence):
            parts -= 1
        edges = np.quantile(self.at, np.arange(1, parts) / parts) if parts > 1 else np.empty(0)
        mine = np.searchsorted(edges, self.at)
        sizes = np.abs(self.values)
        by_part = [quantile(sizes[mine == part], confidence) for part in range(parts)]
        return np.array(by_part)[np.searchsorted(edges, at)]


def quantile(scores: Floats, confidence: float) -> float:
    """Return the score that a new one stays below with this probability.

    It lies between two of them when no rank is exact (Weibull's plotting position, k of n scores at
    k / (n + 1)): the next higher rank would hold more than it says, by up to 1 / (n + 1). Infinite
    when there are too few scores to say so.

    >>> round(quantile(np.arange(1.0, 100.0), 0.9), 9)
    90.0
    >>> quantile(np.arange(1.0, 5.0), 0.9)
    inf
    """
    if not _is_enough(len(scores), confidence):
        return float("inf")
    return float(np.quantile(scores, confidence, method="weibull"))


def _is_enough(count: int, confidence: float) -> bool:
    return (count + 1) * confidence <= count


def folds(count: int, parts: int, seed: int = 7) -> Numbers:
    """Return the part that each of `count` loads belongs to, dealt at random."""
    return np.random.default_rng(seed).permutation(np.arange(count) % parts)
