"""Published claims held against results: one row each in a table of gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from intarsia.simulate.report.document import Report, Section, Source, Table


class Verdict(StrEnum):
    """What a simulation says of a published statement."""

    REPRODUCED = "reproduced"
    """It follows from the published constants, within the tolerance."""
    CALIBRATED = "calibrated"
    """It holds within the tolerance, but a constant was fitted to it or to what it follows from."""
    REFUTED = "refuted"
    """It does not follow from the published constants."""
    NOT_POSSIBLE = "not possible"
    """What it needs is not at hand."""
    OPEN = "not simulated"
    """The points that decide it were left out, as a quick run does."""

    @classmethod
    def of(cls, holds: bool, *, is_calibrated: bool = False, is_simulated: bool = True) -> Verdict:
        """Judge a statement; comparisons of table values give numpy's truth, which is welcome."""
        if not is_simulated:
            return cls.OPEN
        if not holds:
            return cls.REFUTED
        return cls.CALIBRATED if is_calibrated else cls.REPRODUCED


@dataclass(frozen=True)
class Claim:
    """A published statement, what we find, and whether the two agree."""

    number: str
    published: str
    ours: str
    verdict: Verdict
    tolerance: str
    """What counts as agreement."""
    gap: str = ""
    """What is known to differ, and why."""


def claims_report(
    title: str,
    claims: Sequence[Claim],
    *,
    notes: Sequence[str],
    sections: Sequence[Section],
    sources: Sequence[Source],
    made_with: Mapping[str, str] | None = None,
) -> Report:
    """Return a report that says first what became of the claims, then `notes`, then all else."""
    verdicts = Section("Published statements and ours", tables=(claims_table(claims),))
    return Report(
        title,
        summary=(summary_of(claims), *notes),
        sections=(verdicts, *sections),
        sources=tuple(sources),
        made_with=dict(made_with or {}),
    )


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims as a table."""
    rows = [
        (one.number, one.published, one.ours, one.tolerance, str(one.verdict), one.gap or "–")
        for one in claims
    ]
    columns = ["", "published", "ours (simulated)", "tolerance", "verdict", "known gap"]
    return Table(
        "claims",
        "Published statements and what this simulator finds; ± is half of the 95 % interval. "
        "Calibrated: a constant was fitted to the statement, which therefore proves little. "
        "Tolerances are ours.",
        pd.DataFrame(rows, columns=columns),
    )


def summary_of(claims: Sequence[Claim]) -> str:
    """Say in a sentence what became of the claims."""

    def of(verdict: Verdict) -> list[str]:
        return [one.number for one in claims if one.verdict is verdict]

    kept = len(of(Verdict.REPRODUCED))
    rest = "".join(
        f"; {what}: {', '.join(found)}" for verdict, what in _REST.items() if (found := of(verdict))
    )
    return f"{kept} of {len(claims)} published statements are reproduced{rest}."


_REST = {
    Verdict.CALIBRATED: "only with a constant that was fitted to them",
    Verdict.REFUTED: "refuted",
    Verdict.NOT_POSSIBLE: "not possible here",
    Verdict.OPEN: "left open by a quick run",
}
