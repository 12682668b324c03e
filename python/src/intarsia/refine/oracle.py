"""The predictor as an oracle of development, which finds what takes longer than it should.

Of each benchmark, module and operation what was measured is held against what was foretold. What
takes longer than the tolerance allows is a finding, the worst first, with what its shape suggests.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HEADS = ("benchmark", "module", "operation", "foretold", "measured", "ratio", "allowed")
#: Some calls far beyond the others are no chance from so many times the median on.
_APART = 8.0
#: What is late by more has waited for something.
_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Measured:
    """One operation of a module in a benchmark.

    `foretold` and `samples` have one unit, mostly seconds; `tolerance` is how many times as much
    as foretold is still well: on a busy machine more than on an idle one.
    """

    benchmark: str
    module: str
    operation: str
    foretold: float
    samples: tuple[float, ...]
    tolerance: float

    @property
    def median(self) -> float:
        """The sample in the middle."""
        return statistics.median(self.samples)

    @property
    def ratio(self) -> float:
        """The median over what was foretold."""
        return self.median / self.foretold

    @property
    def is_well(self) -> bool:
        """Whether it takes no longer than it may."""
        return self.ratio <= self.tolerance

    def row(self) -> tuple[str, ...]:
        """Return a line of a table with `HEADS`."""
        return (
            self.benchmark,
            self.module,
            self.operation,
            f"{self.foretold:.4g}",
            f"{self.median:.4g}",
            f"{self.ratio:.2f}",
            f"{self.tolerance:g}",
        )


def findings(measured: Iterable[Measured]) -> list[Measured]:
    """Return what takes longer than it may, the worst first."""
    bad = [one for one in measured if not one.is_well]
    return sorted(bad, key=lambda one: one.ratio / one.tolerance, reverse=True)


def suggestion(found: Measured) -> str:
    """Say what the shape of a finding suggests."""
    if found.operation == "share":
        return "one host has more than its part: look at where files are placed"
    if found.operation.startswith("concurrent"):
        return "slow when several ask at once: a lock that is held too long"
    late = [one - found.foretold for one in found.samples if one > _APART * found.foretold]
    seconds = [one for one in late if one > _SECONDS]
    others = [one for one in found.samples if one - found.foretold <= _SECONDS]
    # One that a busy machine made late says nothing where all others are late as well.
    is_all = not others or statistics.median(others) <= found.tolerance * found.foretold
    if is_all and seconds and max(seconds) - min(seconds) < 0.25 * max(seconds):
        return f"late by the same {statistics.median(seconds):.1f} s: a time-out, and a retry"
    if 1.7 <= found.ratio <= 2.6:
        return "about twice: something is done, or sent, twice"
    return "slower throughout: what is done each time that need not be"


def told(found: Sequence[Measured]) -> str:
    """Say all findings, a line each."""
    return "\n".join(map(_line, found))


def _line(one: Measured) -> str:
    figures = f"{one.median:.4g} where {one.foretold:.4g} was foretold"
    allowed = f"{one.ratio:.1f} times, {one.tolerance:g} allowed"
    where = f"{one.benchmark}, {one.module}, {one.operation}"
    return f"{where}: {figures} ({allowed}): {suggestion(one)}"
