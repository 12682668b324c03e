"""Loads: what a virtual disk, a file tree or a program asks of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia.characterise.errors import CharacteriseError

Floats = NDArray[np.float64]
"""One number each of some things."""

Mask = NDArray[np.bool_]
"""Which of some things."""

Numbers = NDArray[np.intp]
"""Places of some things."""

Points = NDArray[np.float64]
"""Loads as rows, with the columns random %, read %, bytes, outstanding."""

RANDOM, READ, BYTES, OUTSTANDING = range(4)


@dataclass(frozen=True)
class Load:
    """The four numbers that describe a load at run time."""

    random: float
    """Requests that start elsewhere than where the one before ended, in per cent."""
    read: float
    """Requests that read, in per cent."""
    bytes: float
    """Mean size of a request."""
    outstanding: float
    """Mean number of requests that wait for an answer."""

    def __post_init__(self) -> None:
        for name in ("random", "read"):
            value = getattr(self, name)
            if not 0 <= value <= 100:
                raise CharacteriseError(f"{name}: {value:g} is not within 0 and 100 per cent")
        if not self.bytes >= 1:
            raise CharacteriseError(f"bytes: {self.bytes:g} is no size of a request; give bytes")
        if not self.outstanding > 0:
            raise CharacteriseError(f"outstanding: {self.outstanding:g} must be above 0")

    @property
    def row(self) -> Floats:
        """The load as a row of `Points`."""
        return np.array([self.random, self.read, self.bytes, self.outstanding])


def points_of(loads: Sequence[Load]) -> Points:
    """Return loads as rows."""
    return np.array([one.row for one in loads]).reshape(-1, 4)


def load_of(row: Floats) -> Load:
    """Return a row as a load."""
    return Load(*(float(value) for value in row))
