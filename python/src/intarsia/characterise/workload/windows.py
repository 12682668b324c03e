"""Numbers of a load by window of time, and their distributions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Floats, Load
from intarsia.characterise.workload.records import Records

LENGTH_S = 20.0
"""The published length of a window."""
_FAR = 10
"""A seek goes further than this many mean sizes, so that large requests in order are none."""


@dataclass(frozen=True)
class Window:
    """A load in one span of time. What the trace does not tell is not a number."""

    start_s: float
    requests: int
    random: float
    """Per cent of the requests that start further from the end of the one before than ten mean
    sizes."""
    read: float
    bytes: float
    outstanding: float
    """Mean number, by Little's law: the sum of latencies over the time."""
    latency_ms: float
    iops: float
    switches: float
    """Per cent of the requests that came after one of another device: seeks between loads."""
    seeks: float
    """Per cent of the requests that start far from the end of the one before, which is of the same
    device: seeks within a load."""

    def load(self) -> Load:
        """Return the load; raises `CharacteriseError` when the trace has no latencies."""
        if np.isnan(self.outstanding):
            raise CharacteriseError(
                "the trace has no latencies, so the outstanding requests are not known"
            )
        return Load(self.random, self.read, self.bytes, max(self.outstanding, 1e-3))


@dataclass(frozen=True)
class Spread:
    """How a number is distributed over windows."""

    mean: float
    p5: float
    p50: float
    p95: float


@dataclass(frozen=True)
class Summary:
    """A load over all its windows."""

    windows: int
    requests: int
    seconds: float
    numbers: dict[str, Spread]
    sizes: dict[int, float]
    """Per cent of the requests by size, each up to this power of two in bytes."""
    seeks: dict[int, float]
    """Per cent of the requests by distance from the end of the one before, up to this power of two;
    0 for none."""


NUMBERS = ("random", "read", "bytes", "outstanding", "latency_ms", "iops", "switches", "seeks")


def windows(records: Records, length_s: float = LENGTH_S) -> Iterator[Window]:
    """Return the windows in which there are two requests at least."""
    if length_s <= 0:
        raise CharacteriseError(f"a window of {length_s:g} s; give a length above 0")
    if len(records) == 0:
        return
    end = float(records.start_s[-1])
    for number in range(int(end // length_s) + 1):
        part = records.between(number * length_s, (number + 1) * length_s)
        if len(part) >= 2:
            # The last window ends with the trace, unless that is hardly a window at all.
            left = end - number * length_s
            yield _window(part, number * length_s, min(length_s, max(left, length_s / 20)))


def _window(part: Records, start_s: float, length_s: float) -> Window:
    distance = seek_distance(part)
    far = distance > _FAR * part.bytes.mean()
    has_offsets = not np.isnan(part.offset).all()
    is_switch = part.device[1:] != part.device[:-1]
    return Window(
        start_s,
        len(part),
        float(100 * far.mean()) if has_offsets else float("nan"),
        float(100 * part.is_read.mean()),
        float(part.bytes.mean()),
        float(part.latency_ms.sum() / 1e3 / length_s),
        float(part.latency_ms.mean()),
        len(part) / length_s,
        float(100 * is_switch.mean()),
        float(100 * (far & ~is_switch).mean()) if has_offsets else float("nan"),
    )


def seek_distance(records: Records) -> Floats:
    """Return how far each request starts from the end of the one before, in bytes."""
    ends = records.offset[:-1] + records.bytes[:-1]
    return np.abs(records.offset[1:] - ends)


def summarise(records: Records, length_s: float = LENGTH_S) -> Summary:
    """Return the distributions of a load's numbers over windows, of its sizes and its seeks.

    Raises `CharacteriseError` when no window has two requests.
    """
    found = list(windows(records, length_s))
    if not found:
        raise CharacteriseError(
            f"no window of {length_s:g} s has two requests; give longer windows"
        )
    numbers = {name: _spread(np.array([getattr(w, name) for w in found])) for name in NUMBERS}
    return Summary(
        len(found),
        len(records),
        float(records.start_s[-1]),
        numbers,
        _by_power(records.bytes),
        _by_power(seek_distance(records)),
    )


def _spread(values: Floats) -> Spread:
    if np.isnan(values).all():
        return Spread(*[float("nan")] * 4)
    low, middle, high = (float(one) for one in np.nanquantile(values, (0.05, 0.5, 0.95)))
    return Spread(float(np.nanmean(values)), low, middle, high)


def _by_power(values: Floats) -> dict[int, float]:
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return {}
    powers = np.where(known < 1, 0, 2 ** np.ceil(np.log2(np.maximum(known, 1))))
    found, counts = np.unique(powers.astype(np.int64), return_counts=True)
    return {
        int(power): float(100 * count / len(known))
        for power, count in zip(found, counts, strict=True)
    }
