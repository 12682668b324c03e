"""Figures of how often intervals hold the measurement."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from intarsia.characterise.study.errors import THIRDS
from intarsia.characterise.study.samples import LEVELS
from intarsia.simulate.report.style import (
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    figure,
    legend_below,
    style,
)

_MARKS = dict(zip(THIRDS, ((VERMILION, "^"), (GREEN, "s"), (BLUE, "o")), strict=True))


def coverage_figure(rows: pd.DataFrame) -> Figure:
    """Draw the share of loads inside, a row for each store, a panel for each level."""
    with style():
        made, panels = figure(len(LEVELS), 1, size=1.1, sharey=True)
        for panel, mine in _levels(panels, rows):
            panel.errorbar(
                100 * mine["inside"], np.arange(len(mine)), xerr=100 * mine["±"].fillna(0),
                fmt="o", color=BLUE,
            )  # fmt: skip
        panels[0].invert_yaxis()
    return made


def size_figure(rows: pd.DataFrame) -> Figure:
    """Draw the same for the fastest, middle and slowest third of the loads of each store."""
    with style():
        made, panels = figure(len(LEVELS), 1, size=1.2, sharey=True)
        for panel, mine in _levels(panels, rows):
            for number, (name, (colour, marker)) in enumerate(_MARKS.items()):
                part = mine[mine["third"] == name]
                panel.errorbar(
                    100 * part["inside"], np.arange(len(part)) + 0.22 * (number - 1),
                    xerr=100 * part["±"].fillna(0), fmt=marker, color=colour,
                    label=f"{name} third",
                )  # fmt: skip
        panels[0].invert_yaxis()
        legend_below(made, panels[0])
    return made


def _levels(panels: list[Axes], rows: pd.DataFrame) -> Iterator[tuple[Axes, pd.DataFrame]]:
    """Give each panel the rows of its level, with what was promised drawn already."""
    stores = list(dict.fromkeys(rows["store"]))
    for panel, level in zip(panels, LEVELS, strict=True):
        panel.axvspan(100 * level - 2, 100 * level + 2, color=GREY, alpha=0.2, linewidth=0)
        panel.axvline(100 * level, color=GREY, linewidth=0.8)
        panel.set_yticks(np.arange(len(stores)), stores)
        panel.set_title(f"{level:.0%} intervals")
        panel.set_xlabel("loads inside, % (grey: promised ± 2; bars: 95 % over fits)")
        yield panel, rows[rows["nominal"] == level]
