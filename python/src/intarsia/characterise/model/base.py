"""What every model of a store's performance can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from intarsia.characterise.load import Floats, Mask, Numbers, Points


@dataclass(frozen=True)
class Samples:
    """Measured loads of one store."""

    points: Points
    latency_ms: Floats

    def __len__(self) -> int:
        return len(self.latency_ms)

    def part(self, chosen: Mask | Numbers) -> Samples:
        """Return some of them, by index or by mask."""
        return Samples(self.points[chosen], self.latency_ms[chosen])


WIDE = 4.0
"""An interval whose upper end is so many times its lower one, or whose lower end is not above zero,
is no base to act on: it says a factor of two in either direction."""


@dataclass(frozen=True)
class Band:
    """Predicted latencies and the interval of each."""

    low_ms: Floats
    mean_ms: Floats
    high_ms: Floats

    def covers(self, latency_ms: Floats) -> Mask:
        """Return which measured latencies lie inside."""
        return (self.low_ms <= latency_ms) & (latency_ms <= self.high_ms)

    def is_wide(self) -> Mask:
        """Return which intervals are too wide to act on."""
        return (self.low_ms <= 0) | (self.high_ms > WIDE * self.low_ms)


class Model(Protocol):
    """A fitted model of one store."""

    def predict(self, points: Points) -> Floats:
        """Return the mean latency of each load, in ms."""
        ...

    def interval(self, points: Points, confidence: float) -> Band:
        """Return the mean latency of each load, and where a new measurement of it will lie."""
        ...
