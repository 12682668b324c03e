"""Pictures of coverage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram

from intarsia.characterise.experiment.coverage import Clusters, tree
from intarsia.characterise.load import BYTES, OUTSTANDING, RANDOM, READ, Points
from intarsia.simulate.report.style import COLOURS, GREY, figure, legend_below, style

_MARKERS = "os^Dv<>P"


def tree_figure(found: Mapping[str, Clusters]) -> Figure:
    """Draw the dendrogram of the components of several benchmarks, a panel for each metric."""
    with style():
        made, panels = figure(1, len(found), size=1.35)
        for panel, (metric, one) in zip(panels, found.items(), strict=True):
            counts: dict[str, int] = {}
            names = []
            for name in one.sets:
                counts[name] = counts.get(name, 0) + 1
                names.append(f"{name} {counts[name]}")
            dendrogram(
                tree(one.places), labels=names, ax=panel, color_threshold=0,
                above_threshold_color=GREY, leaf_rotation=90,
            )  # fmt: skip
            colours = dict(zip(dict.fromkeys(one.sets), COLOURS, strict=False))
            for text in panel.get_xticklabels():
                text.set_color(colours[text.get_text().rsplit(" ", 1)[0]])
            panel.set_title(f"{metric}: {one.count} clusters")
            panel.set_ylabel("distance (Ward)")
    return made


def loads_figure(sets: Mapping[str, Points], found: Clusters) -> Figure:
    """Draw loads as they are measured: a colour for each set, a marker for each cluster."""
    with style():
        made, panels = figure(2, 1, size=1.15)
        points = np.vstack(list(sets.values()))
        pairs = ((RANDOM, READ, False), (BYTES, OUTSTANDING, True))
        titles = {RANDOM: "random, %", READ: "read, %", BYTES: "bytes", OUTSTANDING: "outstanding"}
        shift = np.random.default_rng(1).uniform(-1.5, 1.5, (len(points), 2))
        for panel, (across, up, is_log) in zip(panels, pairs, strict=True):
            for name, colour in zip(sets, COLOURS, strict=False):
                for label in range(found.count):
                    chosen = (np.array(found.sets) == name) & (found.labels == label)
                    rows = points[chosen][:, [across, up]]
                    # Many loads have the same shares; a little apart they can be counted.
                    rows = rows * 2 ** (shift[chosen] / 12) if is_log else rows + shift[chosen]
                    panel.plot(
                        rows[:, 0], rows[:, 1], linestyle="none", color=colour, alpha=0.75,
                        marker=_MARKERS[label % len(_MARKERS)],
                        label=f"{name}, cluster {label + 1}" if chosen.any() else None,
                    )  # fmt: skip
            if is_log:
                panel.set_xscale("log", base=2)
                panel.set_yscale("log", base=2)
            panel.set_xlabel(titles[across])
            panel.set_ylabel(titles[up])
        legend_below(made, panels[0], columns=3)
    return made
