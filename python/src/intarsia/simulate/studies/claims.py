"""Published claims held against results: one row each in a table of gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from intarsia.simulate.report.document import Table


@dataclass(frozen=True)
class Claim:
    """A published statement, what we find, and whether the two agree."""

    number: str
    published: str
    ours: str
    holds: bool
    gap: str = ""
    """What is known to differ, and why."""


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims as a table."""
    rows = [
        (one.number, one.published, one.ours, "yes" if one.holds else "no", one.gap or "–")
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
    kept = sum(one.holds for one in claims)
    missed = ", ".join(one.number for one in claims if not one.holds)
    rest = f"; not: {missed}" if missed else ""
    return f"{kept} of {len(claims)} published statements are reproduced{rest}."
