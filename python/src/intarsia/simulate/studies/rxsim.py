"""Is checkpointing viable at a million nodes? The published study redrawn, then made realistic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from intarsia.simulate.failures import Family, fit, lanl, repair_hours, system_gaps
from intarsia.simulate.failures.toml import distribution
from intarsia.simulate.report.claims import claims_report
from intarsia.simulate.report.document import Label, Plot, Report, Section, Table
from intarsia.simulate.report.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    count,
    figure,
    legend_below,
    node_axis,
    percent_axis,
    style,
)
from intarsia.simulate.scenario import Scenario
from intarsia.simulate.studies import published
from intarsia.simulate.studies.built_in import BuiltIn
from intarsia.simulate.studies.rxsim_claims import (
    MACHINE_MTBF,
    MACHINE_MTBF_POINTS,
    STORAGE,
    at,
    claims_of,
    select,
)
from intarsia.simulate.study.point import Point

_COLOURS = {"none": GREY, "pfs": VERMILION, "dfs": BLUE}
_MARKERS = {"none": "s", "pfs": "^", "dfs": "o"}

_WORKLOADS: dict[str, dict[str, Any]] = {
    "full": {"size": "100 %", "walltime": "7 days"},
    "tenth": {"size": "10 %", "walltime": "7 days"},
    "day": {"size": "100 %", "walltime": "1 day"},
    # The trace has a mean of about 5,000 s; neither its sizes nor their spread are published.
    "short": {
        "size": ["1 %", "5 %", "10 %", "25 %"],
        "walltime": {"model": "exponential", "mean": "5000 s"},
    },
}
_WORKLOAD_TITLES = {
    "full": "full machine, 7 days",
    "tenth": "a tenth of the machine, 7 days",
    "day": "full machine, 1 day",
    "short": "short jobs, mean 5,000 s",
}

_MI = 2**20
_JOB_SECONDS = 7 * 86_400
_FAILURES_PUBLISHED = "1,000 years a node"
_FAILURES_LLAMA = "Llama 3, 0.72 years a node"
_LANL_SYSTEMS = {"18": 1024, "20": 512}
"""Systems whose failures are used, with their numbers of nodes."""
_FAILURE_STYLES = {
    _FAILURES_PUBLISHED: (BLACK, "-"),
    _FAILURES_LLAMA: (PURPLE, "-."),
    "LANL 18": (ORANGE, "--"),
    "LANL 20": (GREEN, ":"),
}

_SHARES = {
    "efficiency": ("useful work", BLUE),
    "checkpoint_share": ("writing checkpoints", SKY),
    "lost_share": ("lost work", VERMILION),
    "boot_share": ("rebooting", ORANGE),
    "repair_share": ("repair", PURPLE),
}


def _points(is_quick: bool) -> list[Point]:
    return (
        _published_points(is_quick) + _machine_mtbf_points(is_quick) + _realistic_points(is_quick)
    )


def _published_points(is_quick: bool) -> list[Point]:
    nodes = (
        (1_024, 65_536, 262_144, 409_600, _MI, 2 * _MI)
        if is_quick
        else tuple(sorted({2**power for power in range(10, 22)} | {409_600, 786_432}))
    )
    run = {"replications": 5 if is_quick else 20}
    return [
        _point("published", _FAILURES_PUBLISHED, workload, storage, count_, {"run": run})
        for workload in _WORKLOADS
        for storage in STORAGE
        for count_ in nodes
    ]


def _machine_mtbf_points(is_quick: bool) -> list[Point]:
    """Jobs of a tenth whose interval follows from the MTBF of the whole machine."""
    run = {"replications": 5 if is_quick else 20}
    points = []
    for storage, nodes in MACHINE_MTBF_POINTS:
        seconds = published.interval_with_machine_mtbf(storage, nodes, 0.1)
        fields = {"run": run, "checkpoint": {"interval": f"{seconds:.10g} s"}}
        points.append(_point(MACHINE_MTBF, _FAILURES_PUBLISHED, "tenth", storage, nodes, fields))
    return points


def _realistic_points(is_quick: bool) -> list[Point]:
    """Full-machine jobs of 7 days under failure rates that were observed."""
    nodes = [2**power for power in range(7, 21, 3 if is_quick else 1)]
    # Failures are so frequent that half a year has plenty of them.
    run = {"horizon": "182 days", "replications": 3 if is_quick else 10}
    return [
        _point("realistic", name, "full", storage, count_, {"failures": observed, "run": run})
        for name, observed in _observed_failures().items()
        for storage in ("pfs", "dfs")
        for count_ in nodes
    ]


def _point(
    part: str, failures: str, workload: str, storage: str, nodes: int, fields: dict[str, Any]
) -> Point:
    base = {"preset": f"rxsim-{storage}", "workload": _WORKLOADS[workload]}
    labels = {
        "part": part,
        "failure_model": failures,
        "workload": workload,
        "storage": storage,
        "nodes": nodes,
    }
    return Point(
        "checkpoint", Scenario.load(base).override({"machine.nodes": nodes, **fields}), labels
    )


def _observed_failures() -> dict[str, dict[str, Any]]:
    records = lanl()
    llama_hours = 54 * 24 / 419 * 16_384 / 8
    observed: dict[str, dict[str, Any]] = {
        _FAILURES_LLAMA: {"lifetime": {"mean": f"{llama_hours:.10g} h"}}
    }
    for system, nodes in _LANL_SYSTEMS.items():
        gaps = fit(system_gaps(records, system), Family.WEIBULL)
        observed[f"LANL {system}"] = {
            "scope": "system",
            "nodes": nodes,
            "lifetime": {
                "model": "weibull",
                "shape": gaps["shape"],
                "mean": f"{gaps.mean_hours:.10g} h",
            },
            "repair": distribution(fit(repair_hours(records, system), Family.LOG_NORMAL)),
        }
    return observed


def _report(frame: pd.DataFrame, units: dict[str, str]) -> Report:
    del units  # all shares
    return claims_report(
        "Is checkpointing viable at a million nodes?",
        claims_of(frame),
        notes=(
            "The published answer rests on one assumption: a node fails once in 1,000 years. "
            + _realistic_conclusion(frame),
        ),
        sections=(
            _section_full(frame),
            _section_time(frame),
            _section_others(frame),
            _section_realistic(frame),
        ),
        sources=(published.RXSIM, published.EQUATIONS, published.LANL, published.LLAMA),
    )


def _section_full(frame: pd.DataFrame) -> Section:
    return Section(
        "Full-machine jobs of 7 days",
        text=(
            "Memory of a node is 2 GB up to 64 Ki nodes and grows in proportion beyond; the "
            "central file system has 1 GB/s for every 1,000 nodes, node-local storage (log2 "
            "nodes)² MB/s a node. The interval is Daly's of 2003, √(2C(M + R)) − C.",
        ),
        plots=(
            Plot(
                "efficiency-full",
                "Efficiency of full-machine jobs. Filled: simulated here, bars are 95 % intervals; "
                "hollow: independent evaluation of the published equations [equations]; stars: "
                "values that the published text names [RXSim].",
                _draw_workloads(frame, ["full"]),
            ),
        ),
        tables=(_comparison(frame),),
    )


def _section_time(frame: pd.DataFrame) -> Section:
    return Section(
        "Where the time goes",
        plots=(
            Plot(
                "time-full",
                "Shares of the machine's time for full-machine jobs of 7 days, simulated. Work "
                "of which nobody can say at the end whether it would have been kept does not "
                "count.",
                _draw_time(frame),
            ),
        ),
    )


def _section_others(frame: pd.DataFrame) -> Section:
    return Section(
        "Smaller and shorter jobs",
        text=(
            "The short jobs stand for eight months of accounting logs of Intrepid, of which only "
            "the mean duration is published: sizes of 1, 5, 10 and 25 % of the machine, equally "
            "likely, and exponential durations of 5,000 s in the mean are an assumption.",
        ),
        plots=(
            Plot(
                "efficiency-others",
                "Efficiency for the other published workloads; marks as above.",
                _draw_workloads(frame, ["tenth", "day", "short"]),
            ),
        ),
    )


def _section_realistic(frame: pd.DataFrame) -> Section:
    return Section(
        "The same machines with failures as observed",
        text=(
            "Full-machine jobs of 7 days on the same machines, with failures of three systems of "
            "which records exist. Gaps between failures of LANL 18 and 20 are Weibull, fitted by "
            "maximum likelihood and scaled in proportion to the number of nodes, with repairs that "
            "are log-normal; a training run of 2024 had one interruption in 3.1 h on 16,384 GPUs "
            "(exponential, 8 GPUs a node, no repair time known).",
            "A checkpoint on the nodes has a copy on a partner and is lost when both are lost "
            "before the job runs again, which the published model leaves out. On a machine without "
            "spares, where a job waits for every repair, that happens: with the repairs of LANL, "
            "node-local storage falls below the central file system on some thousand nodes. "
            "Copying anew during an outage, which would help, is not modelled.",
            _realistic_conclusion(frame),
        ),
        plots=(
            Plot(
                "efficiency-realistic",
                "Efficiency of full-machine jobs under the published assumption and under failures "
                "as observed; simulated, bars are 95 % intervals.",
                _draw_realistic(frame),
            ),
        ),
        tables=(_realistic_table(frame),),
    )


def _draw_workloads(frame: pd.DataFrame, workloads: Sequence[str]) -> Figure:
    with style():
        made, panels = figure(len(workloads), size=1.0 if len(workloads) > 1 else 1.5, sharey=True)
        for panel, workload in zip(panels, workloads, strict=True):
            _draw_curves(panel, select(frame, "published", workload))
            _draw_published(panel, workload)
            panel.set_title(_WORKLOAD_TITLES[workload])
        percent_axis(panels[0])
        if len(panels) == 1:
            panels[0].legend(loc="lower left")
        else:
            legend_below(made, panels[0])
        return made


def _draw_curves(panel: Axes, part: pd.DataFrame) -> None:
    for storage, curve in part.groupby("storage", sort=False):
        panel.errorbar(
            curve["nodes"],
            100 * curve["efficiency"],
            yerr=100 * curve["efficiency_half_width"].fillna(0),
            color=_COLOURS[storage],
            marker=_MARKERS[storage],
            label=STORAGE[storage],
        )
    node_axis(panel, part["nodes"])


def _draw_published(panel: Axes, workload: str) -> None:
    hollow: dict[str, Any] = {
        "linestyle": "none",
        "markerfacecolor": "none",
        "markersize": 8.5,
        "zorder": 3,
    }
    for storage, colour in _COLOURS.items():
        for nodes, value in _by_equations(workload, storage):
            panel.plot(nodes, 100 * value, marker=_MARKERS[storage], color=colour, **hollow)
    for storage, nodes, value in _NAMED.get(workload, ()):
        panel.plot(
            nodes, 100 * value, marker="*", color=_COLOURS[storage], markersize=13,
            markeredgecolor=BLACK, markeredgewidth=0.7, linestyle="none", zorder=4,
        )  # fmt: skip
    if workload == "full":
        panel.plot([], [], marker="o", color=BLACK, **hollow, label="published equations")
        panel.plot(
            [], [], marker="*", color=BLACK, markersize=11, linestyle="none", label="published text"
        )


def _by_equations(workload: str, storage: str) -> Iterable[tuple[int, float]]:
    if workload == "full":
        yield from zip(
            published.NODES_OF_TABLE, published.EFFICIENCY_BY_EQUATIONS[storage], strict=True
        )
    for (of, where, nodes), value in published.EFFICIENCY_BY_EQUATIONS_ELSEWHERE.items():
        if (of, where) == (workload, storage):
            yield nodes, value


_NAMED = {
    # (storage, nodes, value) as the published text has them; bounds are drawn at the bound.
    "full": (("none", 409_600, 0.0), ("pfs", _MI, 0.05), ("dfs", _MI, 0.90)),
    "tenth": (("pfs", _MI, 0.70), ("dfs", 2 * _MI, 0.95)),
    "day": (("dfs", _MI, 0.90),),
    "short": (("dfs", 2 * _MI, 0.95),),
}


def _draw_time(frame: pd.DataFrame) -> Figure:
    with style():
        made, panels = figure(3, sharey=True)
        for panel, storage in zip(panels, STORAGE, strict=True):
            part = select(frame, "published", "full")
            part = part[part["storage"] == storage]
            shown = {name: what for name, what in _SHARES.items() if part[name].max() > 0}
            panel.stackplot(
                part["nodes"],
                [100 * part[name] for name in shown],
                labels=[label for label, _ in shown.values()],
                colors=[colour for _, colour in shown.values()],
                linewidth=0,
            )
            node_axis(panel, part["nodes"])
            panel.set_title(STORAGE[storage])
            panel.grid(visible=False)
            panel.set_xlim(part["nodes"].min(), part["nodes"].max())
        percent_axis(panels[0], "share of time (%)")
        legend_below(made, panels[1])
        return made


def _draw_realistic(frame: pd.DataFrame) -> Figure:
    with style():
        made, panels = figure(2, sharey=True)
        for panel, storage in zip(panels, ("pfs", "dfs"), strict=True):
            for name, (colour, dashes) in _FAILURE_STYLES.items():
                curve = _under(frame, name, storage)
                panel.errorbar(
                    curve["nodes"],
                    100 * curve["efficiency"],
                    yerr=100 * curve["efficiency_half_width"].fillna(0),
                    color=colour,
                    linestyle=dashes,
                    marker="o",
                    markersize=3,
                    label=name,
                )
            node_axis(panel, [128, 2 * _MI])
            panel.set_title(STORAGE[storage])
        percent_axis(panels[0])
        legend_below(made, panels[1])
        return made


def _comparison(frame: pd.DataFrame) -> Table:
    rows = []
    for storage in STORAGE:
        ours = select(frame, "published", "full")
        ours = ours[ours["storage"] == storage].set_index("nodes")
        for nodes, expected in _by_equations("full", storage):
            if nodes in ours.index:
                row = ours.loc[nodes]
                rows.append(
                    {
                        "storage": STORAGE[storage],
                        "nodes": count(nodes),
                        "published equations (%)": 100 * expected,
                        "analytic (%)": 100 * _analytic(row),
                        "ours (%)": 100 * row["efficiency"],
                        "± (%)": 100 * row["efficiency_half_width"],
                        "difference (points)": 100 * (row["efficiency"] - expected),
                    }
                )
    return Table(
        "efficiency-full",
        "Efficiency of full-machine jobs of 7 days: independent evaluation of the published "
        "equations, closed form, and simulation. The independent evaluation is a single simulation "
        "of five years, which is why it is off without checkpoints, where few jobs come to their "
        "end.",
        pd.DataFrame(rows).round(2),
    )


def _analytic(row: Any) -> float:
    """Return the efficiency by the closed form for exponential failures."""
    if row["storage"] != "none":
        return float(row["derived.efficiency_by_formula"])
    # A job of T seconds that begins anew at each failure and reboots for R takes
    # M e^(R/M) (e^(T/M) − 1), and R more when it has ended.
    mtbf, reboot = row["derived.job_mtbf"], row["derived.reboot_time"]
    took = mtbf * math.exp(reboot / mtbf) * math.expm1(_JOB_SECONDS / mtbf) + reboot
    return _JOB_SECONDS / float(took)


def _realistic_table(frame: pd.DataFrame) -> Table:
    rows = []
    for name in _FAILURE_STYLES:
        for storage in ("pfs", "dfs"):
            curve = _under(frame, name, storage)
            largest = curve[curve["efficiency"] >= 0.5]["nodes"].max()
            row: dict[str, Any] = {
                "failures": name,
                "storage": STORAGE[storage],
                "largest machine of these ≥ 50 %": "none" if pd.isna(largest) else count(largest),
                "label": str(Label.SIMULATED),
            }
            for nodes in (8_192, 65_536, _MI):
                value = curve[curve["nodes"] == nodes]["efficiency"]
                row[f"at {count(nodes)} (%)"] = 100 * value.iloc[0] if len(value) else float("nan")
            rows.append(row)
    return Table("realistic", "Efficiency under failures as observed.", pd.DataFrame(rows).round(1))


def _realistic_conclusion(frame: pd.DataFrame) -> str:
    optimistic = at(frame, "full", "dfs", _MI)["efficiency"]
    found = []
    for name in (_FAILURES_LLAMA, *(f"LANL {system}" for system in _LANL_SYSTEMS)):
        curve = _under(frame, name, "dfs")
        found.append((name, curve[curve["efficiency"] >= 0.5]["nodes"].max(), curve.iloc[-1]))
    limits = "; ".join(
        f"{name}: "
        + ("on none of these machines" if pd.isna(nodes) else f"up to {count(nodes)} nodes")
        for name, nodes, _ in found
    )
    worst = max(last["efficiency"] for _, _, last in found)
    return (
        f"With it, node-local storage keeps {100 * optimistic:.0f} % of a million nodes useful. "
        f"With failures as they were observed it keeps at most {_at_most(100 * worst)} % of them, "
        f"and half of the time is useful only on smaller machines ({limits})."
    )


def _at_most(percent: float) -> str:
    return f"{percent:.1f}" if percent >= 0.1 else "0.1"


def _under(frame: pd.DataFrame, failures: str, storage: str) -> pd.DataFrame:
    chosen = frame[
        (frame["failure_model"] == failures)
        & (frame["workload"] == "full")
        & (frame["storage"] == storage)
    ]
    return chosen.sort_values("nodes")


RXSIM = BuiltIn(
    "rxsim",
    "checkpoints up to two million nodes, published against simulated",
    _points,
    _report,
)
