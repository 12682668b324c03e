"""Pictures of what was observed and forecast."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from intarsia.dedup.classes import Composition, Series
from intarsia.dedup.forecast import Forecast, naive_rate, naive_ratio
from intarsia.simulate.report.style import BLUE, GREY, ORANGE, VERMILION, figure, style

_SCALES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def forecast_figure(series: Series, found: Forecast) -> Figure:
    """Draw composition and ratio, observed and ahead."""
    with style():
        made, (left, right) = figure(2, 1, 1.1)
        _sizes(left, series, found)
        _ratios(right, series, found)
    return made


def stack(axes: Axes, states: list[Composition], scale: float, unit: str) -> None:
    """Draw unique, base and duplicates as stacked bars, a bar for each backup."""
    x = np.arange(1, len(states) + 1)
    below = np.zeros(len(states))
    for label, colour, values in (
        ("unique", ORANGE, [s.unique for s in states]),
        ("base", BLUE, [s.base for s in states]),
        ("duplicate", "#CCCCCC", [s.duplicate for s in states]),
    ):
        heights = np.array(values) / scale
        axes.bar(x, heights, 0.75, bottom=below, color=colour, label=label)
        below += heights
    axes.set_xticks(x)
    axes.set_xlabel("full backups")
    axes.set_ylabel(unit)


def _sizes(axes: Axes, series: Series, found: Forecast) -> None:
    last = found.points[-1].state.logical
    scale, unit = next((s, u) for s, u in _SCALES if last >= s)
    x = np.arange(1, len(series.states) + 1)
    ahead = np.array([point.backups for point in found.points])
    axes.plot(x, [s.logical / scale for s in series.states], "-", color=GREY, label="logical")
    axes.plot(ahead, [p.state.logical / scale for p in found.points], ":", color=GREY)
    axes.plot(x, [s.stored / scale for s in series.states], "o-", color=BLUE, label="stored")
    axes.plot(
        ahead,
        [p.state.stored / scale for p in found.points],
        "o--",
        color=BLUE,
        markerfacecolor="white",
        label="stored, forecast",
    )
    axes.fill_between(
        ahead,
        [p.stored_low / scale for p in found.points],
        [p.stored_high / scale for p in found.points],
        color=BLUE,
        alpha=0.18,
        linewidth=0,
        label=f"{100 * found.confidence:g} % interval",
    )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("full backups")
    axes.set_ylabel(unit)
    axes.set_title("Size")
    axes.legend()


def _ratios(axes: Axes, series: Series, found: Forecast) -> None:
    x = np.arange(1, len(series.states) + 1)
    ahead = np.array([point.backups for point in found.points])
    axes.plot(x, [100 * s.ratio for s in series.states], "o-", color=BLUE, label="observed")
    axes.plot(
        ahead,
        [100 * p.ratio for p in found.points],
        "o--",
        color=BLUE,
        markerfacecolor="white",
        label="forecast",
    )
    axes.fill_between(
        ahead,
        [100 * p.ratio_low for p in found.points],
        [100 * p.ratio_high for p in found.points],
        color=BLUE,
        alpha=0.18,
        linewidth=0,
    )
    rate = naive_rate(series)
    naive = [100 * naive_ratio(rate, int(n)) for n in ahead]
    axes.plot(ahead, naive, "--", color=VERMILION, label="naive (change rate)")
    axes.set_ylim(0, 105)
    axes.set_xlabel("full backups")
    axes.set_ylabel("stored / logical (%)")
    axes.set_title("Ratio")
    axes.legend()
