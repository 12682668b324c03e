"""How figures look: one style for papers, legible in grey and with colour blindness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, without its yellow, which vanishes on white.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#222222", "#7F7F7F"
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)

_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=COLOURS),
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "errorbar.capsize": 2,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    # The same figure gives the same bytes.
    "svg.hashsalt": "intarsia",
    "svg.fonttype": "path",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in this module's style, whatever the user's own settings are."""
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE, "backend": mpl.get_backend()}):
        yield


def figure(
    columns: int = 1, rows: int = 1, size: float = 1.0, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of `columns` by `rows` panels, each `size` times as large, and the panels."""
    made = Figure(
        figsize=(0.8 + 3.6 * columns * size, 0.4 + 2.7 * rows * size), layout="constrained"
    )
    panels = made.subplots(rows, columns, squeeze=False, **options)
    return made, list(panels.flat)


def legend_below(made: Figure, panel: Axes, columns: int = 4) -> None:
    """Put the legend of `panel` below all panels, where it hides nothing."""
    made.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def node_axis(axes: Axes, nodes: Sequence[float], label: str = "nodes") -> None:
    """Give `axes` a logarithmic axis of node counts, labelled 1 Ki, 32 Ki, 1 Mi."""
    axes.set_xscale("log", base=2)
    low, high = int(np.floor(np.log2(min(nodes)))), int(np.ceil(np.log2(max(nodes))))
    step = max(1, round((high - low) / 5))
    ticks = [2.0**power for power in range(low, high + 1, step)]
    axes.set_xticks(ticks, [count(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(label)


def count(number: float) -> str:
    """Write a number of nodes as people say it.

    >>> count(1024), count(2097152), count(16384), count(48)
    ('1 Ki', '2 Mi', '16 Ki', '48')
    """
    for size, name in ((2**20, "Mi"), (2**10, "Ki")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:g}"


def percent_axis(axes: Axes, label: str = "efficiency (%)") -> None:
    """Give `axes` an upright axis of per cent."""
    axes.set_ylim(-2, 102)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel(label)
