"""Where to measure a store: the published grid, and points drawn from the whole space."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from intarsia.characterise.load import Points

_PERCENT = (0, 25, 50, 75, 100)


@dataclass(frozen=True)
class Region:
    """The loads of interest: sizes in bytes, outstanding requests; shares go from 0 to 100 %."""

    bytes_least: float = 1024
    bytes_most: float = 128 * 1024
    outstanding_least: float = 1
    outstanding_most: float = 128


PUBLISHED = Region()
"""The region of the published test vector, after its two missing values are added."""

BALANCING = Region(2048, 2**20, 1, 48)
"""The region that the usual loads reach when several share a store."""


AS_PRINTED = Region(1024, 64 * 1024, 1, 64)
"""The region of the test vector as it is printed: 1225 loads, of which its text says 1600."""


def grid(region: Region = PUBLISHED) -> Points:
    """Return the published test vector: 5 x 5 shares, sizes and depths in powers of two.

    >>> len(grid()), len(grid(AS_PRINTED))
    (1600, 1225)
    """
    sizes = _powers(region.bytes_least, region.bytes_most)
    depths = _powers(region.outstanding_least, region.outstanding_most)
    return np.array(list(product(_PERCENT, _PERCENT, sizes, depths)), dtype=float)


def spread(count: int, region: Region = PUBLISHED, seed: int = 1) -> Points:
    """Return so many loads, drawn independently, sizes and depths on a logarithmic scale.

    A fifth of the shares is at 0 or 100 %, where loads of real life are and stores behave unlike
    anywhere between. Sizes are whole KiB (512 bytes below), depths whole numbers.

    A sequence that fills the space more evenly would do harm: a load that is left out of it is
    further from the rest than a new one is, so errors on left-out loads would no longer stand for
    those on new ones, and without near neighbours noise cannot be told from shape.
    """
    unit = np.random.default_rng(seed).random((count, 4))
    shares = np.clip((unit[:, :2] * 1.25 - 0.125), 0, 1) * 100
    step = 512 if region.bytes_least < 1024 else 1024
    low, high = np.log(region.bytes_least), np.log(region.bytes_most)
    sizes = np.maximum(np.round(np.exp(low + unit[:, 2] * (high - low)) / step), 1) * step
    low, high = np.log(region.outstanding_least - 0.5), np.log(region.outstanding_most + 0.5)
    depths = np.round(np.exp(low + unit[:, 3] * (high - low)))
    depths = np.clip(depths, region.outstanding_least, region.outstanding_most)
    return np.column_stack([np.round(shares, 2), sizes, depths])


def _powers(least: float, most: float) -> list[float]:
    return [float(2**n) for n in range(round(np.log2(least)), round(np.log2(most)) + 1)]
