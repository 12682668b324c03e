"""How long between checkpoints? Formulas of Young and Daly, the exact optimum, and simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from intarsia.simulate.report.document import Label, Plot, Report, Section, Table
from intarsia.simulate.report.style import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    figure,
    legend_below,
    style,
)
from intarsia.simulate.scenario import Scenario
from intarsia.simulate.studies import published
from intarsia.simulate.studies.built_in import BuiltIn
from intarsia.simulate.study.point import Point

_RULES = {"young": "Young 1974", "daly-2006": "Daly 2006", "exact": "exact"}
_LAWS: dict[str, dict[str, Any]] = {
    "exponential": {"model": "exponential"},
    "Weibull, shape 0.7": {"model": "weibull", "shape": 0.7},
}
_COLOURS = {"young": ORANGE, "daly-2006": GREEN, "exact": BLUE}
_DASHES = {"young": "--", "daly-2006": "-", "exact": ":"}
_TICKS = {300: (200, 500, 1_000, 2_000, 5_000), 60: (500, 1_000, 2_000, 5_000, 10_000)}
_CURVE_FACTORS = (0.15, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
_CURVE_CASES = ((300, 3_600), (60, 86_400))
_MTBFS_SIMULATED = 2_000
"""Horizon in mean times between failures."""


def _points(is_quick: bool) -> list[Point]:
    points = []
    for cost, mtbf, *_ in published.INTERVALS:
        for rule in _RULES:
            for law in _LAWS:
                labels = {"part": "rules", "cost": cost, "mtbf": mtbf, "rule": rule, "law": law}
                points.append(_point(labels, rule, is_quick))
    factors = _CURVE_FACTORS[::3] if is_quick else _CURVE_FACTORS
    for cost, mtbf in _CURVE_CASES:
        daly = _daly_2006(cost, mtbf)
        for factor in factors:
            for law in _LAWS:
                labels = {"part": "curve", "cost": cost, "mtbf": mtbf, "rule": "fixed", "law": law}
                point = _point(
                    labels | {"interval": factor * daly}, f"{factor * daly:.6g} s", is_quick
                )
                points.append(point)
    return points


def _point(labels: dict[str, Any], interval: str, is_quick: bool) -> Point:
    cost, mtbf = labels["cost"], labels["mtbf"]
    scenario = {
        "machine": {"nodes": 1, "reboot": f"{cost} s"},
        "failures": {"lifetime": {**_LAWS[labels["law"]], "mean": f"{mtbf} s"}},
        "level": [{"name": "disk", "kind": "lower", "write": f"{cost} s", "restore": "0 s"}],
        "checkpoint": {"interval": interval},
        # One job that outlasts the run: the formulas hold for long jobs.
        "workload": {"walltime": f"{10 * _MTBFS_SIMULATED * mtbf} s"},
        "run": {
            "horizon": f"{_MTBFS_SIMULATED * mtbf} s",
            "replications": 10 if is_quick else 40,
        },
    }
    return Point("checkpoint", Scenario.load(scenario), labels)


def _daly_2006(cost: float, mtbf: float) -> float:
    ratio = cost / (2 * mtbf)
    return float((2 * cost * mtbf) ** 0.5 * (1 + ratio**0.5 / 3 + ratio / 9) - cost)


def _report(frame: pd.DataFrame, units: dict[str, str]) -> Report:
    del units  # shares and seconds
    table = _oracle_table(frame)
    inside = table["inside the interval"] == "yes"
    worst = (table["simulated (%)"] - table["formula (%)"]).abs().max()
    return Report(
        title="How long between checkpoints?",
        summary=(
            f"Under exponential failures {inside.sum()} of {len(table)} simulated efficiencies "
            "have the analytic value inside their 95 % interval (19 of 20 should); the largest "
            f"difference is {worst:.2f} points.",
            "Young's formula costs less than a point of efficiency until a checkpoint takes a "
            "tenth of the mean time between failures. At the same mean, clustered failures "
            "(Weibull with a shape below 1) cost less than independent ones.",
        ),
        sections=(
            Section(
                "Formulas against simulation",
                text=(
                    "C is the time of a checkpoint and of a restart, M the mean time between "
                    "failures. Exact is the optimum M(1 + W(−e^(−C/M − 1))) with Lambert's W.",
                ),
                tables=(
                    Table(
                        "exponential",
                        "Exponential failures: efficiency by the formula and simulated, at the "
                        "interval of each rule.",
                        table,
                    ),
                    _weibull_table(frame),
                ),
            ),
            Section(
                "What a wrong interval costs",
                plots=(
                    Plot(
                        "interval-curves",
                        "Efficiency over the interval. Line: the formula for exponential failures "
                        "(analytic); dots: simulated with 95 % intervals; vertical lines: the "
                        "rules.",
                        _draw_curves(frame),
                    ),
                ),
            ),
        ),
        sources=(published.YOUNG, published.DALY),
    )


def _oracle_table(frame: pd.DataFrame) -> pd.DataFrame:
    rows = []
    known = {(case[0], case[1]): case for case in published.INTERVALS}
    chosen = frame[(frame["part"] == "rules") & (frame["law"] == "exponential")]
    for _, row in chosen.iterrows():
        case = known[row["cost"], row["mtbf"]]
        column = list(_RULES).index(row["rule"])
        formula, half_width = row["derived.efficiency_by_formula"], row["efficiency_half_width"]
        rows.append(
            {
                "C (s)": row["cost"],
                "M (s)": row["mtbf"],
                "rule": _RULES[row["rule"]],
                "interval (s)": round(row["derived.checkpoint_interval"]),
                "expected interval (s)": case[2 + column],
                "formula (%)": 100 * formula,
                "expected (%)": 100 * case[5 + column],
                "simulated (%)": 100 * row["efficiency"],
                "± (%)": 100 * half_width,
                "inside the interval": "yes"
                if abs(row["efficiency"] - formula) <= half_width
                else "no",
            }
        )
    return pd.DataFrame(rows).round(3)


def _weibull_table(frame: pd.DataFrame) -> Table:
    chosen = frame[(frame["part"] == "rules") & (frame["rule"] == "daly-2006")]
    by_law = chosen.pivot_table(
        index=["cost", "mtbf"],
        columns="law",
        values=["efficiency", "efficiency_half_width"],
        sort=False,
    )
    exponential, weibull = _LAWS
    table = pd.DataFrame(
        {
            "C (s)": by_law.index.get_level_values("cost"),
            "M (s)": by_law.index.get_level_values("mtbf"),
            "exponential (%)": 100 * by_law["efficiency", exponential].to_numpy(),
            "± (%)": 100 * by_law["efficiency_half_width", exponential].to_numpy(),
            "Weibull 0.7 (%)": 100 * by_law["efficiency", weibull].to_numpy(),
            "±  (%)": 100 * by_law["efficiency_half_width", weibull].to_numpy(),
            "label": str(Label.SIMULATED),
        }
    )
    caption = "Clustered failures of the same mean, at Daly's interval for exponential ones."
    return Table("weibull", caption, table.round(3))


def _draw_curves(frame: pd.DataFrame) -> Figure:
    with style():
        made, panels = figure(len(_CURVE_CASES), sharey=False)
        for panel, (cost, mtbf) in zip(panels, _CURVE_CASES, strict=True):
            part = frame[(frame["cost"] == cost) & (frame["mtbf"] == mtbf)]
            curve = part[part["part"] == "curve"].sort_values("interval")
            for law, colour in zip(_LAWS, (BLUE, VERMILION), strict=True):
                of_law = curve[curve["law"] == law]
                panel.errorbar(
                    of_law["interval"],
                    100 * of_law["efficiency"],
                    yerr=100 * of_law["efficiency_half_width"].fillna(0),
                    color=colour,
                    marker="o",
                    linestyle="none",
                    label=f"{law}, simulated",
                )
            line = np.geomspace(curve["interval"].min() / 1.3, curve["interval"].max() * 1.3, 200)
            panel.plot(
                line,
                100 * _efficiency(line, cost, mtbf),
                color=BLUE,
                linewidth=1,
                label="exponential, analytic",
            )
            for rule, name in _RULES.items():
                chosen = part[(part["rule"] == rule) & (part["law"] == "exponential")]
                panel.axvline(
                    chosen["derived.checkpoint_interval"].iloc[0],
                    color=_COLOURS[rule],
                    linewidth=1,
                    linestyle=_DASHES[rule],
                    label=name,
                )
            panel.set_xscale("log")
            panel.set_xticks(_TICKS[cost], [f"{tick:,}" for tick in _TICKS[cost]])
            panel.minorticks_off()
            panel.set_xlabel("interval (s)")
            panel.set_title(f"C = {cost} s, M = {mtbf:,} s")
            panel.set_ylabel("efficiency (%)")
        panels[0].set_ylim(0, 75)
        panels[1].set_ylim(85, 100)
        legend_below(made, panels[1], columns=3)
        return made


def _efficiency(interval: Any, cost: float, mtbf: float) -> Any:
    """Return E = τ / (M e^(R/M) (e^((τ+C)/M) − 1)), with R = C."""
    return interval / (mtbf * np.exp(cost / mtbf) * np.expm1((interval + cost) / mtbf))


INTERVALS = BuiltIn(
    "intervals",
    "formulas of Young and Daly and the exact optimum, against simulation",
    _points,
    _report,
)
