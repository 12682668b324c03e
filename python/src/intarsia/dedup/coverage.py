"""How often the interval of a sample's estimate holds the truth: trials on known populations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia.dedup.unseen import estimate, estimate_counts

Occurrences = NDArray[np.int64]


@dataclass(frozen=True)
class Trial:
    """One population, one sample, by segments or by bytes."""

    population: str
    share: float
    seed: int
    by_bytes: bool
    truth: float
    ratio: float
    low: float
    high: float
    naive: float

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low - 1e-12 <= self.truth <= self.high + 1e-12


def _mixture(random: np.random.Generator, size: int) -> Occurrences:
    """Draw a mixture of unique content, small groups of copies, and a few very frequent ones."""
    weights = random.dirichlet(np.ones(4))
    kinds = (1, 2, int(random.integers(3, 12)), int(random.integers(12, 60)))
    parts = [np.full(int(size * w / k), k, np.int64) for w, k in zip(weights, kinds, strict=True)]
    heavy = random.integers(100, 2000, 3).astype(np.int64)
    return np.concatenate([*parts, heavy])


def _zipf(random: np.random.Generator, size: int) -> Occurrences:
    drawn = random.zipf(1.8 + random.random(), size // 3).astype(np.int64)
    return drawn[drawn <= size // 20]


POPULATIONS: dict[str, Callable[[np.random.Generator, int], Occurrences]] = {
    "all unique": lambda _, size: np.ones(size, np.int64),
    "pairs": lambda _, size: np.full(size // 2, 2, np.int64),
    "about eight": lambda random, size: 1 + random.poisson(7, size // 8).astype(np.int64),
    "half unique, half 20 copies": lambda _, size: np.repeat(
        np.array([1, 20], np.int64), [size // 2, size // 40]
    ),
    "zipf": _zipf,
    "mixture": _mixture,
}
SHARES = (0.02, 0.05, 0.15, 0.3)


def trials(cases: int, segments: int, seed: int = 1, confidence: float = 0.95) -> Iterator[Trial]:
    """Yield so many trials: all populations, shares, and both by segments and by bytes in turn."""
    names = list(POPULATIONS)
    for case in range(cases):
        random = np.random.default_rng([seed, case])
        name = names[case % len(names)]
        share = SHARES[case // len(names) % len(SHARES)]
        by_bytes = case // (len(names) * len(SHARES)) % 2 == 1
        population = POPULATIONS[name](random, segments)
        sizes = random.integers(4096, 16385, len(population))
        drawn = random.binomial(population, share)
        seen = drawn > 0
        if by_bytes:
            total = float((population * sizes).sum())
            truth = float(sizes.sum()) / total
            found = estimate(drawn[seen], sizes[seen], share, total, confidence)
        else:
            count = int(population.sum())
            truth = len(population) / count
            found = estimate_counts(drawn[seen], share, count, confidence)
        yield Trial(
            name, share, case, by_bytes, truth, found.ratio, found.low, found.high, found.naive
        )
