"""How far runs were from what a profile would have foretold of them that others corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from intarsia.refine.corrections import correction

KINDS = ("compute", "io")


def makespan_ratio(run: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> float | None:
    """Return actual over predicted makespan of a run, had the other runs corrected the profile.

    No run vouches for itself that way (leave-one-out cross-validation). What was foretold is taken
    to change with its tasks' work of each kind. None where nothing was foretold; of runs that
    earlier releases kept, as it was when they ended.
    """
    makespan = run.get("compared", {}).get("makespan") or {}
    if not makespan.get("predicted_s"):
        return None
    ratio = float(makespan["actual_s"] / makespan["predicted_s"])
    if "in_force" not in run:
        return ratio
    work = run["compared"]["work"]
    seconds = {kind: float(work[kind]["predicted_s"]) for kind in KINDS if kind in work}
    changed = sum(
        predicted_s * _factor(kind, others) / run["in_force"].get(kind, 1.0)
        for kind, predicted_s in seconds.items()
    )
    return ratio * sum(seconds.values()) / changed if changed > 0 else ratio


def _factor(kind: str, runs: Sequence[Mapping[str, Any]]) -> float:
    """By which factor runs correct a kind of work; 1 where they say nothing of it."""
    found = correction(run["ratios"][kind] for run in runs if kind in run["ratios"])
    return found.factor if found else 1.0
