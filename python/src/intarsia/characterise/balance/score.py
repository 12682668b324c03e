"""What a method did in all tests of the trial, and by how much it lowered latencies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from intarsia.characterise.load import Floats


@dataclass(frozen=True)
class Score:
    """Latencies of the loads and of the stores after a method, over all tests."""

    loads_ms: list[Floats] = field(default_factory=list)
    stores_ms: list[Floats] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)


def as_json(scores: Mapping[str, Score]) -> str:
    """Return scores as text that `from_json` reads."""
    return json.dumps(
        {
            name: {
                "loads_ms": [one.tolist() for one in score.loads_ms],
                "stores_ms": [one.tolist() for one in score.stores_ms],
                "moves": score.moves,
            }
            for name, score in scores.items()
        }
    )


def from_json(text: str) -> dict[str, Score]:
    """Return the scores of `as_json`; raises ValueError, KeyError or TypeError for other text."""
    return {
        name: Score(
            [np.array(one) for one in row["loads_ms"]],
            [np.array(one) for one in row["stores_ms"]],
            list(row["moves"]),
        )
        for name, row in json.loads(text).items()
    }


@dataclass(frozen=True)
class Reduction:
    """By how much a method lowered something, as a share, with a 95 % interval over tests."""

    value: float
    low: float
    high: float


def reductions(
    scores: Mapping[str, Score], name: str, what: str = "loads_ms", resamples: int = 2000
) -> dict[str, Reduction]:
    """Return by how much a method lowered mean, variance and maximum, against the start.

    Sums over tests are compared, so that a test of slow loads counts for what it is.
    """
    before, after = (getattr(scores[one], what) for one in ("start", name))
    draws = np.random.default_rng(3).integers(len(before), size=(resamples, len(before)))
    found = {}
    for label, measure in (("mean", np.mean), ("variance", np.var), ("maximum", np.max)):
        start = np.array([measure(one) for one in before])
        end = np.array([measure(one) for one in after])
        drawn = 1 - end[draws].sum(1) / start[draws].sum(1)
        low, high = np.quantile(drawn, (0.025, 0.975))
        found[label] = Reduction(float(1 - end.sum() / start.sum()), float(low), float(high))
    return found
