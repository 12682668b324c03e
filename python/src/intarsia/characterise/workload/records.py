"""Requests of a trace, whatever file they came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia.characterise.load import Floats


@dataclass(frozen=True)
class Records:
    """Requests in order of their start; columns of one length."""

    start_s: Floats
    is_read: NDArray[np.bool_]
    offset: Floats
    bytes: Floats
    latency_ms: Floats
    """Not a number where the trace does not tell."""
    device: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.start_s)

    def of(self, device: str) -> Records:
        """Return the requests of one device."""
        return self._part(self.device == device)

    def between(self, start_s: float, end_s: float) -> Records:
        """Return the requests that start in a span of time."""
        first, last = np.searchsorted(self.start_s, [start_s, end_s])
        return self._part(slice(first, last))

    def _part(self, chosen: slice | NDArray[np.bool_]) -> Records:
        return Records(
            self.start_s[chosen],
            self.is_read[chosen],
            self.offset[chosen],
            self.bytes[chosen],
            self.latency_ms[chosen],
            self.device[chosen],
        )


Row = tuple[float, bool, float, float, float, str]
"""Start in s, whether it reads, offset, bytes, latency in ms, device."""


def from_rows(rows: list[Row]) -> Records:
    """Return rows in order of time; time starts at 0."""
    start, reads, offset, size, latency, device = zip(*rows, strict=True)
    times = np.array(start, dtype=float)
    order = np.argsort(times, kind="stable")
    return Records(
        times[order] - times.min(),
        np.array(reads, dtype=bool)[order],
        np.array(offset, dtype=float)[order],
        np.array(size, dtype=float)[order],
        np.array(latency, dtype=float)[order],
        np.array(device, dtype=str)[order],
    )
