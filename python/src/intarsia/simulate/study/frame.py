"""Results as a table: one row an envelope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from intarsia.simulate.report.document import Label
from intarsia.simulate.result import Result
from intarsia.simulate.study.point import Point
from intarsia.simulate.study.store import Envelopes


def results_frame(points: Sequence[Point], envelopes: Sequence[Envelopes]) -> pd.DataFrame:
    """Return the points' labels, then `NAME` and `NAME_half_width` for each estimate.

    What follows from the scenario without simulation has a column, too, under `derived.NAME`.
    `attrs["units"]` maps columns to units. Nothing in the table depends on how long a run took.
    """
    rows, units = [], {}
    for point, ones in zip(points, envelopes, strict=True):
        for envelope in ones:
            row, of_row = _row(point, envelope)
            rows.append(row)
            units.update(of_row)
    frame = pd.DataFrame(rows)
    frame.attrs["units"] = units
    return frame


def _row(point: Point, envelope: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    result = Result.from_json(envelope)
    row: dict[str, Any] = dict(point.labels)
    units = {}
    for name, estimate in result.estimates.items():
        row[name] = estimate.mean
        row[f"{name}_half_width"] = math.nan if estimate.half_width is None else estimate.half_width
        units[name] = units[f"{name}_half_width"] = estimate.unit
    for name, derived in result.derived.items():
        row[f"derived.{name}"] = derived.mean
        units[f"derived.{name}"] = derived.unit
    row["label"] = str(Label.SIMULATED)
    row["replications"] = result.replications
    row["seed"] = result.seed
    row["events"] = result.run.get("events")
    return row, units
