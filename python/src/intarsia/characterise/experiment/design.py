"""Two-level screening designs: every main effect from about as many runs as there are knobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pyDOE3 import ff2n, fold, fracfact_by_res, pbdesign

from intarsia.characterise.errors import CharacteriseError

Signs = NDArray[np.int_]
"""Runs as rows, columns of -1 and 1."""

_GENERATORS = {
    12: "++-+++---+-",
    24: "+++++-+-++--++--+-+----",
}
"""First rows of the designs as Plackett and Burman gave them, turned right for the others."""
_MOST = 99
_MOST_FRACTIONAL = 15
"""Beyond, `fracfact_by_res` of pyDOE3 1.6 gives designs that have not the resolution asked for."""
_MOST_FULL = 10
"""With more, a full design has thousands of runs."""


class Kind(StrEnum):
    """A two-level design: how many runs it takes, and what its main effects are free of."""

    PLACKETT_BURMAN = "plackett-burman"
    """About as many runs as knobs; folded over, twice as many, free of interactions of two."""
    FRACTIONAL = "fractional"
    """A regular fraction of resolution IV, free of interactions of two. What a main effect is mixed
    up with is known, and it is all in interactions of three."""
    FULL = "full"
    """Every combination of levels, free of all interactions."""


@dataclass(frozen=True)
class Design:
    """Runs and the factors of their columns; columns without one show the noise."""

    signs: Signs
    names: tuple[str, ...]
    is_folded: bool

    @property
    def dummies(self) -> int:
        """How many columns have no factor."""
        return int(self.signs.shape[1]) - len(self.names)

    def run(self, row: int) -> dict[str, int]:
        """Return the level of each factor in a run."""
        return {name: int(sign) for name, sign in zip(self.names, self.signs[row], strict=False)}


def plackett_burman(factors: int) -> Signs:
    """Return a Plackett-Burman design with all its columns: 4 * ceil((n + 1) / 4) runs.

    Those of 12 and 24 runs are the published ones; the others are pyDOE3's. Where it lacks a size,
    the next one is taken.

    >>> print(plackett_burman(11)[0])
    [ 1  1 -1  1  1  1 -1 -1 -1  1 -1]
    """
    if not 1 <= factors <= _MOST:
        raise CharacteriseError(f"{factors} factors; a screening design takes 1 to {_MOST}")
    runs = 4 * ((factors + 4) // 4)
    while (signs := _orthogonal(runs)) is None:
        # There is a design of every multiple of four, but not all are built in.
        runs += 4
    return signs


def _orthogonal(runs: int) -> Signs | None:
    if runs in _GENERATORS:
        first = np.array([1 if sign == "+" else -1 for sign in _GENERATORS[runs]])
        made = np.vstack([np.roll(first, turn) for turn in range(runs - 1)] + [-np.ones(runs - 1)])
    else:
        try:
            made = pbdesign(runs - 1)
        except AssertionError:
            return None
    signs: Signs = np.rint(made).astype(int)
    is_orthogonal = np.array_equal(signs.T @ signs, runs * np.eye(signs.shape[1], dtype=int))
    return signs if is_orthogonal else None


def design_for(
    names: tuple[str, ...], kind: Kind = Kind.PLACKETT_BURMAN, *, folded: bool = True
) -> Design:
    """Return a design for these factors.

    A Plackett-Burman design is `folded` over, with every run repeated at the opposite levels, so
    that main effects are free of the interactions of two factors; the others are so without that.
    Raises `CharacteriseError` for more factors than a kind can take.
    """
    if kind is Kind.PLACKETT_BURMAN:
        signs = plackett_burman(len(names))
        return Design(np.rint(fold(signs)).astype(int) if folded else signs, names, folded)
    made = _fractional(len(names)) if kind is Kind.FRACTIONAL else _full(len(names))
    return Design(made, names, False)


def _fractional(factors: int) -> Signs:
    if factors > _MOST_FRACTIONAL:
        raise CharacteriseError(
            f"{factors} factors; a fractional design takes {_MOST_FRACTIONAL} at most: take a "
            "Plackett-Burman design, folded over"
        )
    if factors < 5:
        # No fraction has that resolution.
        return _full(factors)
    signs: Signs = np.rint(fracfact_by_res(factors, 4)).astype(int)
    return signs


def _full(factors: int) -> Signs:
    if factors > _MOST_FULL:
        raise CharacteriseError(
            f"{factors} factors; all combinations of more than {_MOST_FULL} are too many runs: "
            "take a fractional design"
        )
    signs: Signs = np.rint(ff2n(factors)).astype(int)
    return signs
