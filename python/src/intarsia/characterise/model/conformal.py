"""Intervals that hold what they say: quantiles of errors on loads that were left out."""

from __future__ import annotations

import numpy as np

from intarsia.characterise.load import Floats, Numbers


def quantile(scores: Floats, confidence: float) -> float:
    """Return the score that a new one stays below with this probability, at least.

    Infinite when there are too few scores to say so.

    >>> quantile(np.arange(1.0, 100.0), 0.9)
    90.0
    >>> quantile(np.arange(1.0, 5.0), 0.9)
    inf
    """
    rank = int(np.ceil((len(scores) + 1) * confidence))
    return float("inf") if rank > len(scores) else float(np.sort(scores)[rank - 1])


def folds(count: int, parts: int, seed: int = 7) -> Numbers:
    """Return the part that each of `count` loads belongs to, dealt at random."""
    return np.random.default_rng(seed).permutation(np.arange(count) % parts)
