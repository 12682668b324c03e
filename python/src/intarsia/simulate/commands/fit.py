"""`intarsia simulate fit`: distributions of failures, from records to a scenario."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from intarsia.simulate import failures
from intarsia.simulate.failures import Family, Fit, Gaps, Goodness, RecordError
from intarsia.simulate.failures.figure import NAMES, fit_figure
from intarsia.simulate.failures.records import NO_SYSTEM
from intarsia.simulate.failures.toml import as_toml, failures_table
from intarsia.simulate.files import write_atomically
from intarsia.simulate.report.write import number, write_figure

_EXAMPLES = """\
examples:
  intarsia simulate fit --system 20
  intarsia simulate fit --system 20 --per-node --out failures.toml --plot fit.svg
  intarsia simulate fit --csv outages.csv --column started=begin --column node=host
"""

# Of lines that go to a file.
_WIDTH = 110
_PICTURES = {".svg", ".png"}


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = commands.add_parser(
        "fit",
        help="fit distributions to failure records",
        description="Fit exponential, Weibull, log-normal and gamma distributions to the gaps "
        "between failures (or to the repairs) by maximum likelihood. Without --csv the records are "
        "those of Los Alamos National Laboratory, 1996 to 2005.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--system", help="the system to take, such as 20")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="other records (.csv, .csv.xz)")
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="name of a column in the CSV file; ours: started, repaired, system, node, nodes",
    )
    parser.add_argument(
        "--time-format", metavar="FORM", help="form of the times, such as '%%m/%%d/%%Y %%H:%%M'"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--per-node", action="store_true", help="gaps of each node by itself")
    what.add_argument("--repairs", action="store_true", help="times to repair instead of gaps")
    parser.add_argument(
        "--complete-only",
        action="store_true",
        help="with --per-node: leave out the gaps that were open when the records end",
    )
    parser.add_argument(
        "--family",
        choices=["best", *Family],
        default="best",
        help="the distribution to write; best is that of the smallest AIC (best)",
    )
    parser.add_argument(
        "--resamples", type=_positive, default=199, help="of the bootstrap behind p-values (199)"
    )
    parser.add_argument("--out", type=Path, metavar="TOML", help="write a scenario's [failures]")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the fits; SVG and PNG are both written"
    )
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="CSV",
        help="write the records themselves, for `replay` in a scenario's [failures]",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Fit, print, and write what was asked for."""
    if chosen.out and chosen.repairs:
        raise RecordError("--out takes gaps; it adds the repairs by itself: leave out --repairs")
    if chosen.plot and chosen.plot.suffix not in _PICTURES:
        raise RecordError(f"--plot {chosen.plot}: end the name in .svg or .png")
    records = _records(chosen)
    gaps = _gaps(records, chosen)
    fits = failures.fit_all(gaps)
    tests = {one.family: failures.goodness(one, chosen.resamples) for one in fits}
    best = fits[0] if chosen.family == "best" else _of(fits, Family(chosen.family))
    bursts = {} if chosen.repairs else failures.burst_sizes(records, chosen.system)
    if chosen.json:
        print(json.dumps(as_json(gaps, fits, tests, bursts), indent=2))
    else:
        _print(gaps, fits, tests, bursts, best)
    _warn(best)
    if chosen.out:
        text = as_toml(_table(records, best, tests[best.family], chosen))
        write_atomically(chosen.out, text.encode())
    if chosen.replay:
        write_atomically(chosen.replay, failures.replay_csv(_own(records, chosen)).encode())
    if chosen.plot:
        picture = fit_figure(gaps, fits, "repair" if chosen.repairs else "gap")
        write_figure(picture, chosen.plot.with_suffix(""))


def as_json(
    gaps: Gaps,
    fits: list[Fit],
    tests: dict[Family, Goodness | None],
    bursts: dict[int, int],
) -> dict[str, Any]:
    """Return all that was found as plain data; times in hours."""
    return {
        "what": gaps.what,
        "gaps": len(gaps.hours),
        "zero_gaps": gaps.zeros,
        "censored": len(gaps.censored_hours),
        "mean_gap_hours": float(gaps.hours.mean()),
        "mean_hours": gaps.mean_hours,
        "burst_sizes": bursts,
        "fits": [
            {
                "family": str(one.family),
                "parameters": {p.name: asdict(p) for p in one.parameters},
                "mean_hours": one.mean_hours,
                "warning": one.warning,
                "log_likelihood": one.log_likelihood,
                "aic": one.aic,
                "goodness": asdict(test) if (test := tests[one.family]) else None,
            }
            for one in fits
        ],
    }


def _records(chosen: argparse.Namespace) -> pd.DataFrame:
    if chosen.csv is None:
        if chosen.system is None:
            raise RecordError(
                "which system? Give --system, such as 20, or other records with --csv"
            )
        return failures.lanl()
    columns = failures.Columns(time_format=chosen.time_format)
    for mapping in chosen.column:
        ours, equals, theirs = mapping.partition("=")
        if not equals or ours not in ("started", "repaired", "system", "node", "nodes"):
            raise RecordError(
                f"--column {mapping}: write OURS=THEIRS, with started, repaired, system, node or "
                "nodes as ours"
            )
        columns = replace(columns, **{ours: theirs})
    records = failures.read_records(chosen.csv, columns)
    if chosen.system is not None and (records["system"] == NO_SYSTEM).all():
        raise RecordError("--system needs to know its column: --column system=NAME")
    return records


def _gaps(records: pd.DataFrame, chosen: argparse.Namespace) -> Gaps:
    if chosen.repairs:
        return failures.repair_hours(records, chosen.system)
    if not chosen.per_node:
        return failures.system_gaps(records, chosen.system)
    gaps = failures.node_gaps(records, chosen.system)
    return gaps.without_censored() if chosen.complete_only else gaps


def _table(
    records: pd.DataFrame, best: Fit, test: Goodness | None, chosen: argparse.Namespace
) -> dict[str, Any]:
    """Return the `[failures]` of a scenario, with repairs where the records have them."""
    own = _own(records, chosen)
    nodes = int(own["nodes"].max())
    if not nodes and not chosen.per_node:
        nodes = own["node"].nunique()
        print(
            f"note: the records do not say how many nodes there are; {chosen.out} has {nodes}, as "
            "many as failed: correct [failures] nodes, or map a column with --column nodes=NAME",
            file=sys.stderr,
        )
    has_repairs = own["repaired"].notna().any()
    repairs = failures.fit_all(failures.repair_hours(own))[0] if has_repairs else None
    if repairs is not None:
        _warn(repairs)
    return failures_table(
        best,
        source=_source(chosen),
        nodes=None if chosen.per_node else nodes,
        repair=repairs,
        bursts=failures.burst_sizes(own),
        goodness=test,
    )


def _warn(fit: Fit) -> None:
    if fit.warning:
        print(f"warning: {fit.warning}; compare the others, or use an empirical distribution",
              file=sys.stderr)  # fmt: skip


def _own(records: pd.DataFrame, chosen: argparse.Namespace) -> pd.DataFrame:
    return records if chosen.system is None else failures.select_system(records, chosen.system)


def _source(chosen: argparse.Namespace) -> str:
    return failures.LANL_CITATION if chosen.csv is None else chosen.csv.name


def _of(fits: list[Fit], family: Family) -> Fit:
    return next(one for one in fits if one.family is family)


def _print(
    gaps: Gaps,
    fits: list[Fit],
    tests: dict[Family, Goodness | None],
    bursts: dict[int, int],
    best: Fit,
) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    console.print(
        f"{gaps.what}: {len(gaps.hours)} gaps above zero, mean {number(gaps.hours.mean())} h"
    )
    console.print(f"  censoring   {gaps.censoring}" + (f" ({gaps.note})" if gaps.note else ""))
    if bursts:
        largest = max(bursts)
        events = sum(bursts.values())
        together = sum(events for size, events in bursts.items() if size > 1)
        console.print(
            f"  bursts      {together} of {events} events took several nodes, each within a minute "
            f"of the one before (largest {largest}); {gaps.zeros} records belong to such an event"
        )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("fit", "parameters (95 % interval)", "mean", "AIC − best", "KS", "p", "AD", "p"):
        table.add_column(
            name, justify="left" if name in ("fit", "parameters (95 % interval)") else "right"
        )
    for one in fits:
        test = tests[one.family]
        tested = ["–"] * 4 if test is None else [
            f"{test.ks:.3f}", _p(test.ks_p, test), f"{test.ad:.2f}", _p(test.ad_p, test)
        ]  # fmt: skip
        table.add_row(
            NAMES[one.family] + (" *" if one is best else ""),
            "\n".join(
                f"{p.name} {number(p.value)} ({number(p.low)}–{number(p.high)})"
                + (f" {p.unit}" if p.unit else "")
                for p in one.parameters
            ),
            f"{number(one.mean_hours)} h" + (" !" if one.warning else ""),
            f"{one.aic - fits[0].aic:.1f}",
            *tested,
        )
    console.print(table)
    if any(one.warning for one in fits):
        console.print(
            f"!  more than 10 % off the recorded mean of {number(gaps.mean_hours)} h: a simulation "
            "would fail that much less or more often"
        )
    resamples = next((test.resamples for test in tests.values() if test), None)
    if resamples is None:
        console.print("goodness of fit is not tested with censored gaps; compare AIC and the plot")
    else:
        console.print(
            f"KS, AD: Kolmogorov–Smirnov, Anderson–Darling; p by parametric bootstrap, "
            f"{resamples} resamples"
        )


def _p(value: float, test: Goodness) -> str:
    least = 1 / (test.resamples + 1)
    return f"≤ {least:.3f}" if value <= least else f"{value:.3f}"


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
