"""The part of the page on runs that were held against the profile: predicted and actual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from intarsia.advice import figures
from intarsia.refine.compare import Pair
from intarsia.simulate.report.document import Plot, Section, Table

_TITLE = "How far runs were from what was foretold"


def held_section(profile: Mapping[str, Any], outside: Sequence[str]) -> Section | None:
    """Return the section, or None for a profile that `intarsia refine` never corrected.

    `outside` says where the advice lies outside of what these runs cover.
    """
    refinement = profile.get("measured", {}).get("refinement")
    if not refinement or not refinement.get("runs"):
        return None
    runs = sorted(refinement["runs"], key=lambda run: str(run["ended_at"]))
    # Runs that earlier releases refined by have no stages.
    told = [run for run in runs if run.get("compared", {}).get("makespan")]
    tables = [
        Table(
            "corrections",
            "Corrections: so many times as long as the profile said at first, and the least and "
            "the most of the runs (measured)",
            pd.DataFrame(_corrections(refinement)),
        ),
        Table("runs", "Makespans of the runs, the latest last", pd.DataFrame(map(_run, told))),
        Table(
            "predicted-actual",
            "Stages of the runs, from their first start to their last end",
            pd.DataFrame([row for run in told for row in _stages(run)]),
        ),
    ]
    plots = []
    if told and told[-1]["compared"]["stages"]:
        caption = f"Predicted and actual, by stage, of the run of {_when(told[-1])}"
        plots.append(Plot("predicted-actual", caption, figures.predicted_actual(_pairs(told[-1]))))
    return Section(
        _TITLE,
        (
            f"{len(runs)} run{'s' if len(runs) > 1 else ''} that followed an advice corrected this "
            "profile; what was foretold stood on the profile as it was before each of them.",
            *(f"Note: {text}" for text in outside),
        ),
        tuple(table for table in tables if not table.frame.empty),
        tuple(plots),
    )


def _corrections(refinement: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "kind of work": kind,
            "times as long": one["factor"],
            "runs": one["runs"],
            "least": one["low"],
            "most": one["high"],
            "left out": one["left_out"],
        }
        for kind, one in refinement.get("corrections", {}).items()
    ]


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    pair = Pair(**run["compared"]["makespan"])
    return {
        "run": _when(run),
        "first host": run["host"],
        "hosts": run["hosts"],
        "tasks": run["tasks"],
        "placement": run["placement"],
        **_numbers(pair),
    }


def _stages(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"run": _when(run), "stage": pair.name, "tasks": pair.tasks[1], **_numbers(pair)}
        for pair in _pairs(run)
    ]


def _pairs(run: Mapping[str, Any]) -> list[Pair]:
    return [
        Pair(one["name"], one["predicted_s"], one["actual_s"], tuple(one["tasks"]))
        for one in run["compared"]["stages"]
    ]


def _numbers(pair: Pair) -> dict[str, Any]:
    return {
        "predicted (s)": pair.predicted_s,
        "actual (s)": pair.actual_s,
        "error (%)": float("nan") if pair.error is None else 100 * pair.error,
    }


def _when(run: Mapping[str, Any]) -> str:
    """The moment at which it ended, to the minute.

    >>> _when({"ended_at": "2026-01-02T03:04:05+00:00"})
    '2026-01-02 03:04'
    """
    return str(run["ended_at"])[:16].replace("T", " ")
