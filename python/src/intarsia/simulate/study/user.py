"""The report of a user's own study: its results as a table and a figure for each estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from intarsia.simulate.binary import SimulationError
from intarsia.simulate.report.document import Plot, Report, Section, Table
from intarsia.simulate.report.style import figure, style

# What an axis spans before it is drawn logarithmically.
_WIDE = 30


@dataclass(frozen=True)
class UserStudy:
    """How the results of a study are shown."""

    name: str
    title: str
    axes: tuple[str, ...]
    plot: tuple[str, ...] = ()

    def report(self, frame: pd.DataFrame, units: dict[str, str]) -> Report:
        """Return the report on a table of results."""
        estimates = self._estimates(frame)
        plots = [
            Plot(
                name=estimate.replace(".", "-"),
                caption=f"{estimate} over {self.axes[0]}; simulated, bars are 95 % intervals.",
                figure=_curves(frame, self.axes, estimate, units.get(estimate, "")),
            )
            for estimate in estimates
        ]
        shown = [*self.axes, *(name for one in estimates for name in (one, f"{one}_half_width"))]
        table = Table(
            "results",
            "Means over replications and half the width of their 95 % intervals, simulated.",
            frame[shown].rename(columns={name: _head(name, units) for name in shown}),
        )
        count = f"{len(frame)} points over {', '.join(self.axes)}."
        return Report(
            title=self.title,
            summary=(count,),
            sections=(Section("Results", plots=tuple(plots), tables=(table,)),),
        )

    def _estimates(self, frame: pd.DataFrame) -> list[str]:
        known = [name for name in frame if f"{name}_half_width" in frame]
        for name in self.plot:
            if name not in known:
                raise SimulationError(
                    f"study {self.name}: there is no estimate `{name}` to plot; "
                    f"there are: {', '.join(known)}"
                )
        return list(self.plot) or known


def _head(name: str, units: dict[str, str]) -> str:
    unit = units.get(name, "")
    shown = f"± {name.removesuffix('_half_width')}" if name.endswith("_half_width") else name
    return f"{shown} ({unit})" if unit else shown


def _curves(frame: pd.DataFrame, axes: Sequence[str], estimate: str, unit: str) -> Figure:
    """Draw `estimate` over the first axis, a curve for each combination of the others."""
    first, others = axes[0], list(axes[1:])
    with style():
        made, (panel,) = figure(1)
        is_numeric = pd.api.types.is_numeric_dtype(frame[first])
        names = list(dict.fromkeys(frame[first]))
        groups = frame.groupby(others, sort=False) if others else [((), frame)]
        for values, part in groups:
            across = part[first] if is_numeric else [names.index(value) for value in part[first]]
            panel.errorbar(
                across,
                part[estimate],
                yerr=part[f"{estimate}_half_width"].fillna(0),
                marker="o",
                label=_series(others, values),
            )
        if is_numeric:
            _scale_axis(panel, frame[first].to_numpy())
        else:
            panel.set_xticks(range(len(names)), names)
        panel.set_xlabel(first)
        panel.set_ylabel(f"{estimate} ({unit})" if unit else estimate)
        if others:
            panel.legend()
        return made


def _scale_axis(panel: Any, values: np.ndarray) -> None:
    if values.min() > 0 and values.max() / values.min() > _WIDE:
        panel.set_xscale("log")


def _series(names: Sequence[str], values: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
