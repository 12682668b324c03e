"""Published claims held against results: one row each in a table of gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from intarsia.simulate.report.document import Table

_VERDICTS = {True: "yes", False: "no", None: "not simulated"}


@dataclass(frozen=True)
class Claim:
    """A published statement, what we find, and whether the two agree."""

    number: str
    published: str
    ours: str
    holds: bool | None
    """`None` where the points that decide it were not simulated."""
    gap: str = ""
    """What is known to differ, and why."""

    def __post_init__(self) -> None:
        # Comparisons of table values give numpy's truth, which is not Python's.
        if self.holds is not None:
            object.__setattr__(self, "holds", bool(self.holds))


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims as a table."""
    rows = [
        (one.number, one.published, one.ours, _VERDICTS[one.holds], one.gap or "–")
        for one in claims
    ]
    columns = ["", "published", "ours (simulated)", "agrees", "known gap"]
    return Table(
        "claims",
        "Published statements and what this simulator finds; ± is half of the 95 % interval.",
        pd.DataFrame(rows, columns=columns),
    )


def summary_of(claims: Sequence[Claim]) -> str:
    """Say in a sentence how many claims hold."""
    kept = sum(one.holds is True for one in claims)
    missed = ", ".join(one.number for one in claims if one.holds is False)
    left = ", ".join(one.number for one in claims if one.holds is None)
    rest = f"; not: {missed}" if missed else ""
    rest += f"; left open by a quick run: {left}" if left else ""
    return f"{kept} of {len(claims)} published statements are reproduced{rest}."
