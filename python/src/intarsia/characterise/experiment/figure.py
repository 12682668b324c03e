"""A picture of effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from intarsia.characterise.experiment.effects import Effect, important
from intarsia.simulate.report.style import BLUE, GREY, SKY, figure, style

_COLUMNS = 3
_BARS = 16
"""So many bars fit into a panel of usual height."""


def effect_figure(effects: Mapping[str, Sequence[Effect]], units: Mapping[str, str]) -> Figure:
    """Draw the effects on each metric with their intervals, the largest on top."""
    with style():
        columns = min(len(effects), _COLUMNS)
        made, panels = figure(columns, -(-len(effects) // columns), size=1.15)
        width, height = made.get_size_inches()
        bars = max(len(found) for found in effects.values())
        made.set_size_inches(width, height * max(1.0, bars / _BARS))
        for panel in panels[len(effects) :]:
            panel.remove()
        for panel, (metric, found) in zip(panels, effects.items(), strict=False):
            chosen = important(found)
            colours = [GREY if one.is_dummy else BLUE if one in chosen else SKY for one in found]
            value = np.array([one.value for one in found])
            spread = [value - [one.low for one in found], [one.high for one in found] - value]
            panel.barh(range(len(found)), value, color=colours, xerr=spread, ecolor="#444444")
            panel.set_yticks(range(len(found)), [one.name for one in found])
            panel.invert_yaxis()
            panel.axvline(0, color=GREY, linewidth=0.8)
            panel.set_title(metric)
            panel.set_xlabel(f"high less low level, {units[metric]} (dark: half of all effects)")
    return made
