"""Pictures of an advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from intarsia.advice.sensitivity import Effect
from intarsia.refine.compare import Pair
from intarsia.run.lanes import first_free
from intarsia.simulate.report.style import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    figure,
    legend_below,
    style,
)

_HOUR_S = 3600
_JOULES_PER_WH = 3600
_NAMES = {"thriftiest": "draws least", "best": "recommended"}
_KINDS = (("metadata", GREY), ("read", BLUE), ("compute", ORANGE), ("write", VERMILION))
_MOST_HOSTS, _MOST_STAGES, _MOST_EFFECTS = 40, 16, 12


def pareto(advice: Mapping[str, Any]) -> Figure:
    """Time and cost of every configuration, and those that none beats; energy as colour.

    A bar is where 90 % of the runs of a configuration lie.
    """
    points = advice["points"]
    times = [point["seconds"] for point in points]
    costs = [_cost(point) for point in points]
    energies = [point["joules"]["mean"] for point in points if point.get("joules")]
    has_energy = len(energies) == len(points)
    with style():
        made, panels = figure(size=1.7)
        panel = panels[0]
        if has_energy:
            shades = [energy / _JOULES_PER_WH for energy in energies]
            dots = panel.scatter(times, costs, s=14, c=shades, cmap="viridis", lw=0)
            made.colorbar(dots, ax=panel, label="energy (Wh)")
        else:
            panel.scatter(times, costs, s=14, color=GREY, alpha=0.5, label="configuration", lw=0)
        front = advice["pareto"]
        at = [times[place] for place in front], [costs[place] for place in front]
        if not has_energy:
            panel.step(*at, where="post", color=BLUE, lw=1.2)
        panel.scatter(*at, s=40, edgecolor=BLUE, facecolor="none", label="beaten by none", zorder=3)
        marks = [("fastest", VERMILION, "*"), ("cheapest", GREEN, "D")]
        marks += [("thriftiest", ORANGE, "s")] if has_energy else []
        if advice["best"] != advice["fastest"]:
            marks.append(("best", BLACK, "X"))
        for name, colour, mark in marks:
            place = advice[name]
            panel.scatter(
                times[place],
                costs[place],
                s=110,
                color=colour,
                marker=mark,
                label=_NAMES.get(name, name),
                zorder=4,
            )
        for place in {*front, advice["best"], advice["cheapest"]}:
            if interval := points[place].get("interval"):
                reach = [[times[place] - interval["low"]], [interval["high"] - times[place]]]
                where = times[place], costs[place]
                panel.errorbar(*where, xerr=reach, color=BLACK, lw=0.8, zorder=2)
        if max(times) > 10 * min(times):
            panel.set_xscale("log")
        if max(costs) > 10 * max(min(costs), 1e-12):
            panel.set_yscale("log")
        panel.set_xlabel("makespan (s)")
        currency = advice["basis"].get("currency")
        panel.set_ylabel(f"cost ({currency or 'host hours'})")
        legend_below(made, panel)
    return made


def _cost(point: Mapping[str, Any]) -> float:
    """Money where there are prices, else host hours."""
    money = point.get("money")
    return float(money["mean"] if money else point["host_seconds"] / _HOUR_S)


def stages(run: Mapping[str, Any]) -> Figure:
    """When the stages run, and what their tasks do with their time."""
    shown = run["stages"][:_MOST_STAGES]
    names = [stage["name"] for stage in shown]
    with style():
        made, panels = figure(2, 1, size=0.9 + 0.045 * len(shown), sharey=True)
        starts = [stage["start_seconds"] for stage in shown]
        lengths = [stage["end_seconds"] - stage["start_seconds"] for stage in shown]
        panels[0].barh(names, lengths, left=starts, color=GREEN)
        panels[0].set_xlabel("from its first start to its last end (s)")
        left = [0.0] * len(shown)
        for kind, colour in _KINDS:
            widths = [stage[f"{kind}_seconds"] for stage in shown]
            panels[1].barh(names, widths, left=left, color=colour, label=kind)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        panels[1].set_xlabel("in all its tasks (s)")
        panels[0].invert_yaxis()
        legend_below(made, panels[1])
    return made


def hosts(run: Mapping[str, Any]) -> Figure:
    """What runs on each host: a line for each slot that is used, a colour for each stage."""
    lanes = _lanes(run["tasks"])
    names = [stage["name"] for stage in run["stages"]]
    with style():
        made, panels = figure(size=1.8)
        made.set_figheight(1.4 + 0.16 * len(lanes))
        panel = panels[0]
        for at, (_, tasks) in enumerate(lanes):
            spans = [(t["start_seconds"], t["end_seconds"] - t["start_seconds"]) for t in tasks]
            colours = [COLOURS[t["stage"] % len(COLOURS)] for t in tasks]
            panel.broken_barh(spans, (at - 0.4, 0.8), facecolors=colours, edgecolor="white", lw=0.3)
        labels = [f"host {host}" if slot == 0 else "" for (host, slot), _ in lanes]
        panel.set_yticks(range(len(lanes)), labels)
        panel.invert_yaxis()
        panel.set_xlabel("time (s)")
        patches = [
            Patch(color=COLOURS[number % len(COLOURS)], label=name)
            for number, name in enumerate(names[: len(COLOURS)])
        ]
        made.legend(handles=patches, loc="outside lower center", ncols=5)
    return made


def _lanes(tasks: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[int, int], list[Any]]]:
    """Tasks in the first slot of their host that is free, of so many hosts as can be shown."""
    by_host: dict[int, list[Any]] = {}
    for task in sorted(tasks, key=lambda task: (task["start_seconds"], task["end_seconds"])):
        by_host.setdefault(task["host"], []).append(task)
    lanes: dict[tuple[int, int], list[Any]] = {}
    for host, own in by_host.items():
        spans = ((task["start_seconds"], task["end_seconds"]) for task in own)
        for task, slot in zip(own, first_free(spans, slack=1e-9), strict=True):
            lanes.setdefault((host, slot), []).append(task)
    return sorted(lanes.items(), key=lambda lane: lane[0])[:_MOST_HOSTS]


def predicted_actual(pairs: Sequence[Pair]) -> Figure:
    """Draw what was foretold of each stage beside what it took."""
    shown = pairs[:_MOST_STAGES]
    with style():
        made, panels = figure(size=1.5)
        made.set_figheight(1.3 + 0.34 * len(shown))
        panel = panels[0]
        places = range(len(shown))
        panel.barh([at - 0.2 for at in places], [p.predicted_s for p in shown], 0.38, color=BLUE)
        panel.barh([at + 0.2 for at in places], [p.actual_s for p in shown], 0.38, color=ORANGE)
        for at, pair in zip(places, shown, strict=True):
            if pair.error is not None:
                end_s = max(pair.predicted_s, pair.actual_s)
                panel.annotate(
                    f"{100 * pair.error:.0f} % off",
                    (end_s, at),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                )
        panel.margins(x=0.15)
        panel.set_yticks(places, [pair.name for pair in shown])
        panel.invert_yaxis()
        panel.set_xlabel("from its first start to its last end (s)")
        ends = [Patch(color=BLUE, label="predicted"), Patch(color=ORANGE, label="actual")]
        made.legend(handles=ends, loc="outside lower center", ncols=2)
    return made


def sensitivity(effects: Sequence[Effect], makespan_s: float) -> Figure:
    """How far the makespan moves with each number."""
    shown = effects[:_MOST_EFFECTS]
    with style():
        made, panels = figure(size=1.5)
        panel = panels[0]
        for at, effect in enumerate(shown):
            for end_s, colour in ((effect.low_s, BLUE), (effect.high_s, VERMILION)):
                change = 100 * (end_s / makespan_s - 1)
                panel.barh(at, change, color=colour, height=0.6)
        panel.axvline(0, color=BLACK, lw=0.8)
        panel.set_yticks(range(len(shown)), [effect.number.name for effect in shown])
        panel.invert_yaxis()
        panel.set_xlabel("change of the makespan (%)")
        ends = [Patch(color=BLUE, label="low end"), Patch(color=VERMILION, label="high end")]
        made.legend(handles=ends, loc="outside lower center", ncols=2)
    return made
