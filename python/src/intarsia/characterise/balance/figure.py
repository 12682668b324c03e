"""Pictures of the trial."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from intarsia.characterise.balance.score import Score
from intarsia.characterise.balance.verdict import TARGETS, table
from intarsia.simulate.report.style import BLACK, BLUE, GREY, ORANGE, figure, style

_SHOWN = (
    "random moves",
    "Basil",
    "Pesto",
    "constant slope, greedy",
    "published model, greedy",
    "our plan, 80 % sure",
    "our model, greedy",
    "descent on the truth",
)


def reduction_figure(scores: Mapping[str, Score]) -> Figure:
    """Draw by how much each method lowered mean, variance and maximum, with intervals."""
    names = [name for name in _SHOWN if name in scores]
    with style():
        made, panels = figure(3, 1, sharey=True)
        rows = {what: table(scores, what) for what in ("stores_ms", "loads_ms")}
        for panel, label in zip(panels, TARGETS, strict=True):
            for what, colour, shift in (("stores_ms", BLUE, -0.15), ("loads_ms", ORANGE, 0.15)):
                found = [rows[what][name][label] for name in names]
                value = 100 * np.array([one.value for one in found])
                low = value - 100 * np.array([one.low for one in found])
                high = 100 * np.array([one.high for one in found]) - value
                place = np.arange(len(names)) + shift
                panel.errorbar(
                    value, place, xerr=[low, high], fmt="o", color=colour,
                    label="of stores" if what == "stores_ms" else "of loads",
                )  # fmt: skip
            panel.axvline(100 * TARGETS[label], color=BLACK, linestyle="--", label="published")
            panel.axvline(0, color=GREY, linewidth=0.8)
            panel.set_title(label)
            panel.set_xlabel("lower by, %")
            panel.set_xlim(-60, 104)
            panel.set_yticks(range(len(names)), names)
        panels[0].invert_yaxis()
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return made


def latency_figure(scores: Mapping[str, Score]) -> Figure:
    """Draw the latencies of all stores of all tests before and after."""
    names = ["start", *(name for name in _SHOWN if name in scores)]
    with style():
        made, (panel,) = figure(1, 1, size=1.6)
        values = [np.concatenate(scores[name].stores_ms) for name in names]
        panel.boxplot(
            [np.maximum(one, 0.05) for one in values],
            orientation="horizontal",
            tick_labels=names,
            medianprops={"color": BLUE},
            flierprops={"markersize": 2, "markeredgecolor": GREY},
        )
        panel.set_xscale("log")
        panel.invert_yaxis()
        panel.set_xlabel("latency of a store, ms (an empty store stands at 0.05)")
    return made
