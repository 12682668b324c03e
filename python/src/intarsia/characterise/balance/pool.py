"""Stores and the loads on them, and what a predictor says of a placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Floats, Load

Placement = tuple[int, ...]
"""The store of each load, by number."""

Predictor = Callable[[int, Sequence[Load]], float]
"""The mean latency in ms of loads together on a store (by number); 0 for none."""

ALPHA = 5.0
"""The published weight of the slowest store."""


@dataclass(frozen=True)
class PlacedLoad:
    """A load, how much it holds, and where it is."""

    name: str
    load: Load
    size_bytes: float
    store: int
    is_pinned: bool = False


@dataclass(frozen=True)
class Pool:
    """Stores by name, what each has room for, and the loads."""

    stores: tuple[str, ...]
    capacity_bytes: tuple[float, ...]
    loads: tuple[PlacedLoad, ...]

    def __post_init__(self) -> None:
        for store, used, room in zip(
            self.stores, self.used(self.placement), self.capacity_bytes, strict=True
        ):
            if used > room:
                raise CharacteriseError(
                    f"store {store}: its loads hold {used:.4g} bytes, its capacity is {room:.4g}; "
                    "correct a size or the capacity"
                )

    @property
    def placement(self) -> Placement:
        """Where the loads are."""
        return tuple(one.store for one in self.loads)

    def used(self, placement: Placement) -> Floats:
        """Return the bytes on each store."""
        used = np.zeros(len(self.stores))
        for one, store in zip(self.loads, placement, strict=True):
            used[store] += one.size_bytes
        return used

    def moves(self, placement: Placement) -> list[tuple[int, int]]:
        """Return every load and store that it could move to and fits into."""
        used = self.used(placement)
        return [
            (number, store)
            for number, one in enumerate(self.loads)
            if not one.is_pinned
            for store in range(len(self.stores))
            if store != placement[number]
            and used[store] + one.size_bytes <= self.capacity_bytes[store]
        ]


def moved(placement: Placement, number: int, store: int) -> Placement:
    """Return the placement with one load elsewhere."""
    return (*placement[:number], store, *placement[number + 1 :])


def merit(latency_ms: Floats, alpha: float = ALPHA, weights: Floats | None = None) -> float:
    """Return the p-norm of the stores' latencies, which is to be small.

    With weights (the loads of each store) it is that of the loads.

    >>> round(merit(np.array([3.0, 4.0]), alpha=2), 6)
    5.0
    """
    largest = float(latency_ms.max(initial=0.0))
    if largest <= 0:
        return 0.0
    weight = np.ones(len(latency_ms)) if weights is None else weights
    # Over the largest, so that no power leaves the range of numbers.
    return largest * float((weight * (latency_ms / largest) ** alpha).sum() ** (1 / alpha))


@dataclass
class Evaluator:
    """Latencies and merit of placements; each group of loads on a store is predicted once."""

    pool: Pool
    predictor: Predictor
    alpha: float = ALPHA
    by_load: bool = False
    """Whether a store counts once for each of its loads."""
    _known: dict[tuple[int, frozenset[int]], float] = field(default_factory=dict)

    def members(self, placement: Placement, store: int) -> frozenset[int]:
        """Return the loads on a store, by number."""
        return frozenset(number for number, where in enumerate(placement) if where == store)

    def latency(self, store: int, members: frozenset[int]) -> float:
        """Return the mean latency of these loads together on a store, in ms."""
        key = (store, members)
        if key not in self._known:
            loads = [self.pool.loads[number].load for number in sorted(members)]
            self._known[key] = self.predictor(store, loads)
        return self._known[key]

    def latencies(self, placement: Placement) -> Floats:
        """Return the latency of each store, in ms."""
        numbers = range(len(self.pool.stores))
        return np.array([self.latency(store, self.members(placement, store)) for store in numbers])

    def merit(self, placement: Placement) -> float:
        """Return the merit of a placement, in ms."""
        weights = None
        if self.by_load:
            weights = np.bincount(placement, minlength=len(self.pool.stores)).astype(float)
        return merit(self.latencies(placement), self.alpha, weights)

    def imbalance(self, placement: Placement) -> float:
        """Return the standard deviation of the stores' latencies: what Basil and Pesto lower."""
        return float(self.latencies(placement).std())
