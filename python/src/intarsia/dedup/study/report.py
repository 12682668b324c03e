"""The report of the study: tables, figures and verdicts, all from the raw samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from intarsia.dedup.classes import Composition
from intarsia.dedup.figures import stack
from intarsia.dedup.regression import fit_line
from intarsia.dedup.study.claims import METHODS, claims_of, errors, throughput_line
from intarsia.dedup.study.errata import errata_frame
from intarsia.dedup.study.published import BY_NAME, DATA_SETS
from intarsia.dedup.study.samples import Samples
from intarsia.simulate.report.claims import claims_report
from intarsia.simulate.report.document import Plot, Report, Section, Source, Table
from intarsia.simulate.report.style import (
    BLUE,
    COLOURS,
    GREY,
    VERMILION,
    figure,
    legend_below,
    style,
)

_SOURCE = Source(
    "thesis",
    "N. Park: Statistical characterization of storage workloads and its applications to storage "
    "performance prediction and resource optimization. PhD thesis, University of Minnesota, 2013, "
    "chapter 7; N. Park and D. J. Lilja: Characterizing datasets for data deduplication in backup "
    "applications. IISWC 2010.",
)


def build(samples: Samples, made_with: dict[str, str], seed: int) -> Report:
    """Build the report."""
    return claims_report(
        "Deduplication of backups: the published study, redrawn",
        claims_of(samples),
        notes=(
            "The published traces are private. What depends on them is judged on traces that are "
            "generated from the published tables, and counts as calibrated at best.",
        ),
        sections=(
            Section("Slips of the text", tables=(_errata(samples, seed),)),
            _composition_section(samples["compositions"]),
            _forecast_section(samples["forecasts"]),
            _throughput_section(samples["flows"]),
            _sample_section(samples["coverage"]),
            Section(
                "Chunkers, merging, exclusion",
                tables=(
                    Table("chunkers", "Random data, cut (simulated)", samples["chunkers"]),
                    Table("merges", "Two data sets in one store (simulated)", samples["merges"]),
                    Table("parts", "Parts of generated trees (simulated)", _parts(samples)),
                    Table("oracle", "Queue at the store, random hits", samples["oracle"]),
                ),
            ),
        ),
        sources=(_SOURCE,),
        made_with=made_with,
    )


def _errata(samples: Samples, seed: int) -> Table:
    return Table(
        "errata",
        "As printed, and corrected; both can be computed.",
        errata_frame(samples["chunkers"], seed),
    )


def _parts(samples: Samples) -> pd.DataFrame:
    columns = ["tree", "name", "bytes_a_backup", "usr", "bgr", "saved_a_backup", "exclude"]
    return samples["parts"][columns]


def _composition_section(frame: pd.DataFrame) -> Section:
    last = frame[frame["fulls"] == frame["fulls"].max()]
    rows = [
        {
            "data set": row.name,
            "ratio, published": row.ratio,
            "ratio, ours": float(last[last["data_set"] == row.name]["ratio"].iloc[0]),
            "usr from the published ratio": row.usr,
            "usr, ours (mean of later transitions)": float(
                frame[(frame["data_set"] == row.name) & (frame["fulls"] > 2)]["usr"].mean()
            ),
            "bgr, ours": float(
                frame[(frame["data_set"] == row.name) & (frame["fulls"] > 2)]["bgr"].mean()
            ),
            "references": float(last[last["data_set"] == row.name]["references"].iloc[0]),
        }
        for row in DATA_SETS
    ]
    return Section(
        "Composition",
        text=("Segments of all fulls so far, by class; figure 7.0 and table 7.1.",),
        plots=(Plot("composition", "Composition of generated traces", _composition(frame)),),
        tables=(
            Table("composition", "After five fulls (published, simulated)", pd.DataFrame(rows)),
        ),
    )


def _composition(frame: pd.DataFrame) -> Figure:
    with style():
        made, panels = figure(3, 2, 0.75)
        for panel, row in zip(panels, DATA_SETS, strict=True):
            mine = frame[frame["data_set"] == row.name]
            states = [
                Composition(one.logical, one.unique, one.base)
                for one in mine.itertuples(index=False)
            ]
            stack(panel, states, 1000, "thousand segments")
            panel.set_title(row.name)
        legend_below(made, panels[0], 3)
    return made


def _forecast_section(forecasts: pd.DataFrame) -> Section:
    found = errors(forecasts)
    grouped = found.groupby(["kind", "corpus"], sort=False)
    rows = []
    for (kind, corpus), mine in grouped:
        row = BY_NAME.get(str(corpus)) if kind == "trace" else None
        rows.append(
            {
                "kind": kind,
                "corpus": corpus,
                "cases": len(mine),
                "published, %": 100 * row.error if row else np.nan,
                "published naive, %": 100 * row.naive_error if row else np.nan,
                **{f"{method}, %": 100 * mine[method].mean() for method in METHODS},
                "ours, worst, %": 100 * mine["intarsia"].max(),
                "below naive": f"{int((mine['intarsia'] < mine['naive']).sum())} of {len(mine)}",
                "in 95 % interval": f"{int(mine['holds'].sum())} of {len(mine)}",
            }
        )
    return Section(
        "Forecasts",
        text=(
            "Trained on three fulls, forecast to the last; relative errors of the ratio; table "
            "7.4. Anchored: the change rate from what is stored now. Printed and corrected: the "
            "published usr and bgr, with and without the first transition. intarsia: ours.",
        ),
        plots=(Plot("forecasts", "Errors of the forecasts", _forecasts(found)),),
        tables=(Table("forecasts", "Mean errors (published, simulated)", pd.DataFrame(rows)),),
    )


def _forecasts(found: pd.DataFrame) -> Figure:
    names = list(dict.fromkeys(found["corpus"]))
    x = np.arange(len(names))
    with style():
        made, (panel,) = figure(1, 1, 2.0)
        marks = (
            ("naive", VERMILION, "v"),
            ("printed", GREY, "s"),
            ("corrected", COLOURS[2], "D"),
            ("intarsia", BLUE, "o"),
        )
        for shift, (method, colour, mark) in enumerate(marks):
            for at, name in zip(x, names, strict=True):
                mine = 100 * found[found["corpus"] == name][method].clip(lower=1e-5)
                place = at + 0.16 * (shift - 1.5)
                panel.plot([place, place], [mine.min(), mine.max()], color=colour, linewidth=1)
                panel.plot(place, mine.mean(), mark, color=colour, label=method if at == 0 else "")
        known = found[found["kind"] == "trace"]["corpus"].unique()
        published = [(at, BY_NAME[name]) for at, name in enumerate(names) if name in known]
        panel.plot(
            [at for at, _ in published],
            [100 * row.error for _, row in published],
            "_",
            color="black",
            markersize=22,
            label="published (usr, bgr)",
        )
        panel.set_yscale("log")
        panel.set_ylim(bottom=0.01)
        panel.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
        panel.set_xticks(x, names, rotation=30, ha="right")
        panel.set_ylabel("error of the ratio (%): mean, range")
        legend_below(made, panel, 5)
    return made


def _throughput_section(flows: pd.DataFrame) -> Section:
    line = throughput_line(flows)
    diagnostics = flows[["data_set", "fulls", "ratio", "serial"]].assign(
        residual=line.residuals, leverage=line.leverage, cook=line.cook
    )
    table = fit_line([row.ratio for row in DATA_SETS], [row.throughput for row in DATA_SETS])
    rows = [
        {
            "data set": row.name,
            "ratio": row.ratio,
            "published, MB/s": row.throughput,
            "line through the six, MB/s": table.at(row.ratio),
            "one at a time (analytic), MB/s": 1 / (1 / 100 + 0.0063 + row.ratio / 50),
        }
        for row in DATA_SETS
    ]
    return Section(
        "Throughput, queues and runs",
        text=(
            "Published totals are those of a store that lets one segment through at a time: "
            "1 / T = 1 / 100 + 0.0063 + ratio / 50 seconds a megabyte, where only the 0.0063 of "
            "the dictionary is fitted.",
        ),
        plots=(
            Plot("throughput", "Throughput and ratio; queues at the store", _throughput(flows)),
        ),
        tables=(
            Table("throughput", "Totals (published, analytic)", pd.DataFrame(rows)),
            Table("runs", "Each full through the store (simulated)", flows),
            Table("diagnostics", "The line through the 30 points (simulated)", diagnostics),
        ),
    )


def _throughput(flows: pd.DataFrame) -> Figure:
    line = throughput_line(flows)
    with style():
        made, (left, right) = figure(2, 1, 1.2)
        for row, colour in zip(DATA_SETS, COLOURS, strict=False):
            mine = flows[flows["data_set"] == row.name]
            left.plot(mine["ratio"], mine["serial"], "o", color=colour, label=row.name)
            left.plot(row.ratio, row.throughput, "*", color=colour, markersize=10)
            right.plot(mine["fulls"], mine["queue_trace"], "o-", color=colour)
            right.plot(mine["fulls"], mine["queue_rand"], ":", color=colour)
        ends = np.array([flows["ratio"].min(), flows["ratio"].max()])
        left.plot(ends, line.intercept + line.slope * ends, "-", color=GREY, linewidth=1)
        left.set_xlabel("stored / logical, all fulls so far")
        left.set_ylabel("MB/s")
        left.set_title("Throughput (stars: published totals)")
        right.plot(
            sorted(flows["fulls"].unique()),
            flows.groupby("fulls")["queue_all_miss"].mean(),
            "--",
            color="black",
        )
        right.set_yscale("log")
        right.set_xlabel("full backup")
        right.set_ylabel("segments at the store, mean")
        right.set_title("Queue (dotted: random; dashed: all, mean)")
        right.set_xticks(sorted(flows["fulls"].unique()))
        legend_below(made, left, 6)
    return made


def _sample_section(coverage: pd.DataFrame) -> Section:
    frame = coverage.assign(width=(coverage["high"] - coverage["low"]) / coverage["truth"])
    grouped = frame.groupby(["population", "share"], sort=False)
    table = grouped.agg(
        cases=("holds", "size"),
        held=("holds", "sum"),
        truth=("truth", "mean"),
        estimate=("ratio", "mean"),
        naive=("naive", "mean"),
        width=("width", "mean"),
    ).reset_index()
    return Section(
        "Estimates from samples",
        text=(
            "Ratios with 95 % intervals against the truth; width is that of the interval as a "
            "share of the truth; naive is the ratio within the sample.",
        ),
        plots=(Plot("samples", "Intervals and truth", _samples(frame)),),
        tables=(Table("samples", "Trials on known populations (simulated)", table),),
    )


def _samples(frame: pd.DataFrame) -> Figure:
    with style():
        made, panels = figure(3, 2, 0.8, sharex=True)
        for panel, (name, mine) in zip(
            panels, frame.groupby("population", sort=False), strict=False
        ):
            ordered = mine.sort_values(["share", "seed"]).reset_index(drop=True)
            x = np.arange(len(ordered))
            panel.vlines(x, 100 * ordered["low"], 100 * ordered["high"], color=BLUE, linewidth=1.2)
            panel.plot(x, 100 * ordered["truth"], "_", color="black", label="truth")
            panel.plot(x, 100 * ordered["naive"], ".", color=VERMILION, label="within the sample")
            panel.plot([], [], "-", color=BLUE, label="interval")
            panel.set_title(str(name))
            panel.set_ylim(0, 105)
            panel.set_xticks([])
        for panel in panels[::3]:
            panel.set_ylabel("ratio (%)")
        for panel in panels[3:]:
            panel.set_xlabel("cases, by share sampled")
        legend_below(made, panels[0], 3)
    return made
