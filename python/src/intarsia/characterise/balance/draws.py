"""Random loads, groups of loads and placements for trials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intarsia.characterise import published
from intarsia.characterise.balance.pool import PlacedLoad, Pool
from intarsia.characterise.load import Load

_SIZE_BYTES = 50e9
_CAPACITY_BYTES = 1e15


def random_mixes(count: int, seed: int) -> list[list[Load]]:
    """Return groups of 2 to 6 usual loads with 1 to 3 outstanding requests each."""
    random = np.random.default_rng(seed)
    return [random_loads(random, int(random.integers(2, 7))) for _ in range(count)]


def random_loads(random: np.random.Generator, count: int, deepest: int = 3) -> list[Load]:
    """Return usual loads with 1 to `deepest` outstanding requests, repetition allowed."""
    names = list(published.LOADS)
    return [
        published.load(names[random.integers(len(names))], float(random.integers(1, deepest + 1)))
        for _ in range(count)
    ]


def random_pool(names: Sequence[str], seed: int, deepest: int = 3) -> Pool:
    """Return 8 to 14 usual loads, each on a random store."""
    random = np.random.default_rng(seed)
    count = int(random.integers(8, 15))
    loads = random_loads(random, count, deepest)
    placed = tuple(
        PlacedLoad(f"load-{number + 1}", load, _SIZE_BYTES, int(random.integers(len(names))))
        for number, load in enumerate(loads)
    )
    return Pool(tuple(names), (_CAPACITY_BYTES,) * len(names), placed)
