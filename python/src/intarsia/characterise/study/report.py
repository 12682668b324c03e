"""The report of the study: tables, figures and verdicts, all from the raw samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from intarsia.characterise.balance.figure import latency_figure, reduction_figure
from intarsia.characterise.balance.score import Score
from intarsia.characterise.balance.verdict import table
from intarsia.characterise.experiment.coverage_figure import tree_figure
from intarsia.characterise.experiment.driver import metrics_of_runs
from intarsia.characterise.experiment.figure import effect_figure
from intarsia.characterise.model.evaluate import OURS
from intarsia.characterise.study import errors, screens
from intarsia.characterise.study.axes import plain_log
from intarsia.characterise.study.claims import claims_of, pair_errors, seek_errors
from intarsia.characterise.study.errata import errata_frame
from intarsia.characterise.study.intervals import coverage_figure, size_figure
from intarsia.characterise.study.samples import LONGER_REQUESTS, PAIRED, Raw
from intarsia.simulate.report.claims import claims_report
from intarsia.simulate.report.document import Plot, Report, Section, Source, Table
from intarsia.simulate.report.style import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    VERMILION,
    figure,
    legend_below,
    style,
)

_SOURCE = Source(
    "thesis",
    "N. Park: Statistical characterization of storage workloads and its applications to storage "
    "performance prediction and resource optimization. PhD thesis, University of Minnesota, 2013, "
    "chapters 4 to 6; N. Park and others: Romano. SoCC 2012.",
)


def build(raw: Raw, made_with: dict[str, str]) -> Report:
    """Build the report."""
    return claims_report(
        "Unlike stores, characterised and balanced: the published study, redrawn",
        claims_of(raw),
        notes=(
            "Stores are simulated, with a truth that no model sees; what ran on a real directory "
            "is labelled measured. The published machines are not at hand.",
        ),
        sections=(
            _errata(),
            *_screens(raw),
            _models(raw.tables["predictions"], raw.tables["longer"]),
            _coverage(raw.tables["predictions"]),
            _together(raw),
            *(_balancing(pool, scores) for pool, scores in raw.scores.items()),
        ),
        sources=(_SOURCE,),
        made_with=made_with,
    )


def _screens(raw: Raw) -> list[Section]:
    sections = []
    for name, results in raw.screens.items():
        effects = screens.effects_of(results)
        sections.append(
            Section(
                f"Knobs of {name} (measured)",
                tables=(
                    Table(
                        f"knobs-{name}",
                        "Knobs behind half of all effects (measured)",
                        screens.important_frame(results),
                    ),
                ),
                plots=(
                    Plot(
                        f"effects-{name}",
                        "Effects with 95 % intervals (measured)",
                        effect_figure(effects, metrics_of_runs(results)),
                    ),
                ),
            )
        )
    if len(raw.screens) > 1:
        figure_ = tree_figure(screens.clusters_of(raw.screens))
        sections.append(
            Section(
                "Coverage",
                text=("Independent components of both tools, by how far each moves a metric.",),
                plots=(Plot("components", "Components, clustered (measured)", figure_),),
            )
        )
    return sections


def _errata() -> Section:
    caption = "As printed, and corrected; both can be computed (published tables alone)"
    return Section(
        "Slips of the published text", tables=(Table("errata", caption, errata_frame()),)
    )


def _models(predictions: pd.DataFrame, longer: pd.DataFrame) -> Section:
    return Section(
        "Models on loads that they have not seen",
        text=("Every fit has other loads to learn from and others still to be judged on.",),
        tables=(
            Table(
                "errors-by-store",
                "Mean absolute error, ms (simulated)",
                errors.by_store(predictions).reset_index(),
            ),
            Table(
                "errors-longer-runs",
                f"The same by {LONGER_REQUESTS} requests of each load, ms (simulated)",
                errors.by_store(longer).reset_index(),
            ),
            Table("errors", "Over all stores (simulated)", errors.pooled(predictions)),
            Table(
                "order",
                "Which of two stores is faster for a load (simulated)",
                errors.crossings(predictions),
            ),
        ),
        plots=(Plot("errors", "Mean absolute error (simulated)", _error_figure(predictions)),),
    )


def _error_figure(predictions: pd.DataFrame) -> Figure:
    means = errors.by_store(predictions).drop(columns="ours over the best published")
    with style():
        made, (panel,) = figure(1, 1, size=1.6)
        for number, name in enumerate(means.columns):
            mine = name == OURS
            others = [colour for colour in (*COLOURS, GREY) if colour != BLUE]
            panel.plot(
                means[name], np.arange(len(means)), linestyle="none", label=name,
                marker="D" if mine else "osv^<>ph"[number % 8], markersize=7 if mine else 5,
                color=BLUE if mine else others[number % len(others)],
            )  # fmt: skip
        panel.set_yticks(range(len(means)), means.index)
        panel.invert_yaxis()
        panel.set_xscale("log")
        plain_log(panel.xaxis)
        panel.set_xlabel("mean absolute error on loads not seen, ms")
        legend_below(made, panel, columns=3)
    return made


def _coverage(predictions: pd.DataFrame) -> Section:
    rows, by_size = errors.coverage(predictions), errors.coverage_by_size(predictions)
    return Section(
        "Intervals",
        tables=(
            Table("coverage", "Left-out loads inside our intervals (simulated)", rows),
            Table(
                "coverage-by-size",
                "Inside our intervals, by how slow the load is predicted to be (simulated)",
                by_size,
            ),
        ),
        plots=(
            Plot("coverage", "Coverage of our intervals (simulated)", coverage_figure(rows)),
            Plot(
                "coverage-by-size",
                "Coverage among fast, middle and slow loads (simulated)",
                size_figure(by_size),
            ),
        ),
    )


def _together(raw: Raw) -> Section:
    seeks, pairs = raw.tables["seeks"], raw.tables["pairs"]
    rules = seek_errors(seeks)
    rows = pd.DataFrame({"rule": rules.columns, "mean error": rules.mean(), "largest": rules.max()})
    logs = pair_errors(pairs).drop(columns="pair")
    bias = np.expm1(logs.groupby("store", sort=False).median()).reset_index()
    return Section(
        "Loads that share a store",
        tables=(
            Table("seeks", "Random share of two loads, relative error (simulated)", rows),
            Table("bias", "Pairs of loads: median relative error (simulated)", bias),
        ),
        plots=(
            Plot("seeks", "Random share of pairs of readers (simulated)", _seek_figure(seeks)),
            Plot("pairs", "Pairs of usual loads (simulated)", _pair_figure(pairs)),
        ),
    )


def _seek_figure(seeks: pd.DataFrame) -> Figure:
    with style():
        made, (panel,) = figure(1, 1, size=1.25)
        shown = (("weighted", ORANGE, "s"), ("corrected", BLUE, "o"), ("symmetric", VERMILION, "^"))
        for name, colour, marker in shown:
            panel.plot(
                seeks["measured"], seeks[name], linestyle="none", color=colour, marker=marker,
                label=name,
            )  # fmt: skip
        panel.plot([0, 100], [0, 100], color=GREY, linewidth=0.8)
        panel.set_xlabel("random together, % (simulated)")
        panel.set_ylabel("by the rule, %")
        legend_below(made, panel)
    return made


def _pair_figure(pairs: pd.DataFrame) -> Figure:
    with style():
        made, panels = figure(len(PAIRED), 1, size=1.3)
        for panel, store in zip(panels, PAIRED, strict=True):
            mine = pairs[pairs["store"] == store].sort_values("measured_ms")
            spread = [mine["ours"] - mine["ours low"], mine["ours high"] - mine["ours"]]
            truth = mine["measured_ms"]
            panel.errorbar(
                truth, mine["ours"], yerr=spread, fmt="o", color=BLUE, markersize=3,
                label="ours, 95 %",
            )  # fmt: skip
            panel.plot(
                truth, mine["by outstanding"].clip(lower=0.05), linestyle="none", marker="s",
                color=ORANGE, label="published model, by outstanding",
            )  # fmt: skip
            ends = [truth.min(), truth.max()]
            panel.plot(ends, ends, color=GREY, linewidth=0.8)
            panel.set_xscale("log")
            panel.set_yscale("log")
            plain_log(panel.xaxis)
            plain_log(panel.yaxis)
            panel.set_title(store)
            panel.set_xlabel("latency of the pair, ms (simulated)")
            panel.set_ylabel("predicted, ms")
        legend_below(made, panels[0])
    return made


def _balancing(pool: str, scores: dict[str, Score]) -> Section:
    frames = []
    for what, of in (("stores_ms", "stores"), ("loads_ms", "loads")):
        rows = [
            {
                "method": name,
                **{f"{label}, lower by": one.value for label, one in row.items()},
                **{f"{label} from": one.low for label, one in row.items()},
                **{f"{label} to": one.high for label, one in row.items()},
                "moves": float(np.mean(scores[name].moves)),
            }
            for name, row in table(scores, what).items()
        ]
        caption = f"Latency of {of}, with 95 % intervals over tests (simulated)"
        frames.append(Table(f"balancing-{pool}-{of}", caption, pd.DataFrame(rows)))
    return Section(
        f"Balancing, {pool} stores",
        tables=tuple(frames),
        plots=(
            Plot(f"reductions-{pool}", "Lower by, scored on the truth", reduction_figure(scores)),
            Plot(f"latencies-{pool}", "Latencies before and after", latency_figure(scores)),
        ),
    )
