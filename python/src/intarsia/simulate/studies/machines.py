"""What machines of today keep of their time: checkpoint levels, failure rates, and assumptions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from intarsia.simulate import binary
from intarsia.simulate.report.document import Plot, Report, Section, Table
from intarsia.simulate.report.style import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    figure,
    legend_below,
    percent_axis,
    style,
)
from intarsia.simulate.scenario import Scenario
from intarsia.simulate.studies.built_in import BuiltIn
from intarsia.simulate.study.point import Point

_MACHINES = {
    "frontier": "Frontier",
    "el-capitan": "El Capitan",
    "aurora": "Aurora",
    "llama-3": "Llama 3, 16,384 GPUs",
}
_PLANS = {
    "levels": "all its levels",
    "lower": "central file system only",
    "none": "no checkpoints",
}
_COLOURS = {"levels": BLUE, "lower": VERMILION, "none": GREY}
_MARKERS = {"levels": "o", "lower": "^", "none": "s"}
_MTBF_HOURS = (0.5, 1, 2, 4, 8, 16, 32)

_SHARES = {
    "efficiency": ("useful work", BLUE),
    "checkpoint_share": ("writing checkpoints", SKY),
    "lost_share": ("lost work", VERMILION),
    "boot_share": ("rebooting", ORANGE),
    "restore_share": ("reading checkpoints", PURPLE),
}


def _points(is_quick: bool) -> list[Point]:
    run = {"run.replications": 3 if is_quick else 20}
    hours = _MTBF_HOURS[::3] if is_quick else _MTBF_HOURS
    points = []
    for machine in _MACHINES:
        preset = binary.preset(machine)
        for plan in _PLANS:
            base = _with_plan(preset, plan)
            labels = {"machine": machine, "plan": plan}
            points.append(_point(base, {"part": "plans", **labels}, run))
            points += [
                _point(
                    base,
                    {"part": "mtbf", **labels, "mtbf_hours": float(mtbf)},
                    {"failures.lifetime.mean": f"{mtbf} h", **run},
                )
                for mtbf in hours
            ]
        points += [
            _point(
                preset,
                {
                    "part": "assumptions",
                    "machine": machine,
                    "plan": "levels",
                    "figure": one["figure"],
                }
                | {"end": end, "value": one[end]},
                {one["figure"]: _number_or_quantity(one[end]), **run},
            )
            for one in _assumptions(preset)
            for end in ("low", "high")
        ]
    return points


def _point(scenario: dict[str, Any], labels: dict[str, Any], fields: dict[str, Any]) -> Point:
    return Point("checkpoint", Scenario.load(scenario).override(fields), labels)


def _with_plan(preset: dict[str, Any], plan: str) -> dict[str, Any]:
    """Return the preset with all its levels, with the last one alone, or without checkpoints."""
    changed = copy.deepcopy(preset)
    if plan == "lower":
        last = changed["level"][-1]
        last.pop("every", None)
        changed["level"] = [last]
    elif plan == "none":
        changed["checkpoint"] = {"enabled": False}
    return changed


def _assumptions(preset: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures of a preset that are assumed and matter for what is shown here."""
    return [
        {**one, "high": _capped(preset, one)}
        for one in preset.get("source", [])
        if {"low", "high"} <= one.keys() and not one["figure"].startswith("power.")
    ]


def _capped(preset: dict[str, Any], assumed: dict[str, Any]) -> str:
    """Return the high end, or what the other shares of failures leave of it."""
    high: str = assumed["high"]
    *parents, name = assumed["figure"].split(".")
    if parents != ["failures", "shares"]:
        return high
    others = sum(share for other, share in preset["failures"]["shares"].items() if other != name)
    return f"{min(float(high), 1 - others):g}"


def _number_or_quantity(text: str) -> float | str:
    """Turn a number into one; a quantity keeps its unit."""
    try:
        return float(text)
    except ValueError:
        return text


def _report(frame: pd.DataFrame, units: dict[str, str]) -> Report:
    plans = frame[frame["part"] == "plans"]
    return Report(
        title="What machines of today keep of their time",
        summary=(_summary(plans),),
        sections=(
            Section(
                "Where the time goes",
                text=(
                    "Jobs over the whole machine. The figures of each machine are published, "
                    "derived or assumed as the table at the end says; efficiencies are simulated.",
                ),
                plots=(
                    Plot(
                        "time",
                        "Shares of the machine's time with all levels of checkpoints (left) and "
                        "with the central file system only (right), simulated.",
                        _draw_time(plans),
                    ),
                ),
                tables=(_plans_table(plans, units),),
            ),
            Section(
                "How much reliability it takes",
                plots=(
                    Plot(
                        "mtbf",
                        "Efficiency over the mean time between failures of the whole machine; "
                        "simulated, bars are 95 % intervals, dotted: the preset's own.",
                        _draw_mtbf(frame),
                    ),
                ),
            ),
            Section(
                "What rests on assumptions",
                text=(
                    "Each figure that nobody publishes is set to the ends of the range within "
                    "which it is likely to lie, the others being left alone.",
                ),
                plots=(
                    Plot(
                        "assumptions",
                        "Efficiency with one assumed figure at the low (hollow) and the high "
                        "(filled) end of its range; the line is the preset. Simulated.",
                        _draw_assumptions(frame),
                    ),
                ),
                tables=(_assumptions_table(frame), _sources_table()),
            ),
        ),
    )


def _summary(plans: pd.DataFrame) -> str:
    by_plan = plans.pivot_table(index="machine", columns="plan", values="efficiency", sort=False)
    parts = (
        f"{_MACHINES[machine]} {100 * row['levels']:.1f} % "
        f"({100 * row['lower']:.1f} % with the central file system only)"
        for machine, row in by_plan.iterrows()
    )
    return "Useful share of the time with checkpoints on all levels: " + "; ".join(parts) + "."


def _draw_time(plans: pd.DataFrame) -> Figure:
    with style():
        made, panels = figure(2, sharey=True)
        for panel, plan in zip(panels, ("levels", "lower"), strict=True):
            part = plans[plans["plan"] == plan].set_index("machine").loc[list(_MACHINES)]
            below = pd.Series(0.0, index=part.index)
            for name, (label, colour) in _SHARES.items():
                if name in part and part[name].max() > 0:
                    share = 100 * part[name]
                    panel.bar(
                        range(len(part)), share, bottom=below, color=colour, label=label, width=0.6
                    )
                    below += share
            panel.set_xticks(range(len(part)), [_short(machine) for machine in part.index])
            panel.set_title(_PLANS[plan])
            panel.grid(axis="x", visible=False)
        panels[0].set_ylabel("share of time (%), not from 0")
        lowest = 100 * plans[plans["plan"] != "none"]["efficiency"].min()
        panels[0].set_ylim(max(0, 10 * (lowest // 10) - 10), 100)
        legend_below(made, panels[0], columns=5)
        return made


def _draw_mtbf(frame: pd.DataFrame) -> Figure:
    part = frame[frame["part"] == "mtbf"]
    with style():
        made, panels = figure(2, 2, sharey=True)
        for panel, (machine, name) in zip(panels, _MACHINES.items(), strict=True):
            of_machine = part[part["machine"] == machine]
            for plan, shown in _PLANS.items():
                curve = of_machine[of_machine["plan"] == plan].sort_values("mtbf_hours")
                panel.errorbar(
                    curve["mtbf_hours"],
                    100 * curve["efficiency"],
                    yerr=100 * curve["efficiency_half_width"].fillna(0),
                    color=_COLOURS[plan],
                    marker=_MARKERS[plan],
                    label=shown,
                )
            own = frame[(frame["part"] == "plans") & (frame["machine"] == machine)]
            panel.axvline(
                own["derived.machine_mtbf"].iloc[0] / 3600, color=GREY, linestyle=":", linewidth=1
            )
            panel.set_xscale("log", base=2)
            panel.set_xticks(_MTBF_HOURS, [f"{hours:g}" for hours in _MTBF_HOURS])
            panel.minorticks_off()
            panel.set_title(name)
        for panel in panels[2:]:
            panel.set_xlabel("mean time between failures (h)")
        for panel in panels[::2]:
            percent_axis(panel)
        legend_below(made, panels[3])
        return made


def _draw_assumptions(frame: pd.DataFrame) -> Figure:
    part = frame[frame["part"] == "assumptions"]
    with style():
        made, panels = figure(2, 2, size=1.1)
        for panel, (machine, name) in zip(panels, _MACHINES.items(), strict=True):
            of_machine = part[part["machine"] == machine]
            ends = of_machine.pivot_table(index="figure", columns="end", values="efficiency")
            ends = ends.loc[(ends["high"] - ends["low"]).abs().sort_values().index]
            own = _own(frame, machine)
            for row, (_, values) in enumerate(ends.iterrows()):
                ends_of = [100 * values["low"], 100 * values["high"]]
                panel.plot(ends_of, [row, row], color=BLUE, linewidth=4, alpha=0.4)
                panel.plot(100 * values["low"], row, "o", color=BLUE, markerfacecolor="white")
                panel.plot(100 * values["high"], row, "o", color=BLUE)
            panel.axvline(100 * own, color=GREY, linewidth=1)
            panel.set_yticks(range(len(ends)), list(ends.index), fontsize=7)
            panel.set_xlabel("efficiency (%)")
            panel.set_title(name)
        return made


def _own(frame: pd.DataFrame, machine: str) -> float:
    chosen = frame[
        (frame["part"] == "plans") & (frame["machine"] == machine) & (frame["plan"] == "levels")
    ]
    return float(chosen["efficiency"].iloc[0])


def _plans_table(plans: pd.DataFrame, units: dict[str, str]) -> Table:
    del units  # shares and seconds
    table = pd.DataFrame(
        {
            "machine": [_MACHINES[machine] for machine in plans["machine"]],
            "checkpoints": [_PLANS[plan] for plan in plans["plan"]],
            "MTBF (h)": plans["derived.machine_mtbf"] / 3600,
            "interval (s)": plans["derived.checkpoint_interval"],
            "efficiency (%)": 100 * plans["efficiency"],
            "± (%)": 100 * plans["efficiency_half_width"],
            "checkpoints (%)": 100 * plans["checkpoint_share"],
            "lost (%)": 100 * plans["lost_share"],
            "label": plans["label"],
        }
    )
    return Table("plans", "Shares of time by machine and checkpoint levels.", table.round(3))


def _assumptions_table(frame: pd.DataFrame) -> Table:
    part = frame[frame["part"] == "assumptions"]
    rows = []
    for (machine, name), ends in part.groupby(["machine", "figure"], sort=False):
        by_end = ends.set_index("end")
        rows.append(
            {
                "machine": _MACHINES[machine],
                "figure": name,
                "low": by_end.loc["low", "value"],
                "efficiency at low (%)": 100 * by_end.loc["low", "efficiency"],
                "high": by_end.loc["high", "value"],
                "efficiency at high (%)": 100 * by_end.loc["high", "efficiency"],
                "label": by_end.loc["low", "label"],
            }
        )
    return Table(
        "assumptions", "Assumed figures at the ends of their ranges.", pd.DataFrame(rows).round(2)
    )


def _sources_table() -> Table:
    rows = [
        (_MACHINES[machine], one["figure"], one["basis"], one["text"])
        for machine in _MACHINES
        for one in _sources(machine)
    ]
    table = pd.DataFrame(rows, columns=["machine", "figure", "basis", "source"])
    return Table("sources", "Where the figures of the presets come from.", table)


def _sources(machine: str) -> Sequence[dict[str, Any]]:
    sources: list[dict[str, Any]] = binary.preset(machine).get("source", [])
    return sources


def _short(machine: str) -> str:
    return _MACHINES[machine].split(",")[0]


MACHINES = BuiltIn(
    "machines",
    "Frontier, El Capitan, Aurora, a training run: levels and assumptions",
    _points,
    _report,
)
