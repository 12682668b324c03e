"""`forecast-dedup forecast`: what backups consist of, and what further ones will need."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.dedup.advice import data_class, parts, without
from intarsia.dedup.classes import Observed, Series
from intarsia.dedup.commands.common import (
    BACKUP_HELP,
    add_parser,
    add_reading,
    percent,
    positive,
    print_json,
    print_table,
    read_all,
    share,
)
from intarsia.dedup.errors import DedupError
from intarsia.dedup.forecast import (
    LEAST_BACKUPS,
    Forecast,
    Method,
    forecast,
    naive_rate,
    naive_ratio,
)
from intarsia.dedup.units import show_bytes

_EXAMPLES = """\
examples:
  intarsia forecast-dedup forecast week1.fp week2.fp week3.fp --horizon 10
  intarsia forecast-dedup forecast /backup/2026-0* --horizon 52 --plot year.svg
  intarsia forecast-dedup forecast w1.fp w2.fp w3.fp --exclude cache --json

Ratios are stored over logical: lower is better. A forecast needs three full backups, oldest first.
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "forecast",
        run,
        help="forecast the size and ratio of a store from at least three full backups",
        description="Classify the segments of full backups, oldest first, and forecast what a "
        "store with deduplication holds after further ones, with an interval.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("backups", nargs="+", type=Path, metavar="BACKUP", help=BACKUP_HELP)
    parser.add_argument(
        "--horizon", type=positive, default=4, metavar="N", help="further full backups (4)"
    )
    parser.add_argument(
        "--confidence", type=share, default=0.95, metavar="SHARE", help="of the interval (0.95)"
    )
    parser.add_argument(
        "--method",
        choices=[str(one) for one in Method],
        default=str(Method.INTARSIA),
        help="how rates are taken: ours, or the published way, corrected or as printed (intarsia)",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PART",
        help="leave out a directory, as `exclude` names them; repeatable",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, as .svg and as .png")
    add_reading(parser)


def run(chosen: argparse.Namespace) -> None:
    """Observe, forecast, print, and draw."""
    if len(chosen.backups) < LEAST_BACKUPS:
        raise DedupError(
            f"{len(chosen.backups)} backups are too few: a forecast needs {LEAST_BACKUPS} full "
            "backups, oldest first. Of one backup `sample` and `scan` tell the ratio"
        )
    if chosen.plot and chosen.plot.suffix not in {".svg", ".png"}:
        raise DedupError(f"--plot {chosen.plot}: end the name in .svg or .png")
    traces = read_all(chosen.backups, chosen)
    depth = 1 + max((name.count("/") for name in chosen.exclude), default=0)
    _require_parts(chosen.exclude, [part.name for part in parts(traces, depth)])
    observed = without(traces, chosen.exclude, depth)
    method = Method(chosen.method)
    found = {
        kind: forecast(series, chosen.horizon, method, chosen.confidence)
        for kind, series in (("segments", observed.counts), ("bytes", observed.bytes))
    }
    if chosen.json:
        print_json(as_json(chosen.backups, observed, found))
    else:
        _print(chosen.backups, observed.bytes, found["bytes"])
    if chosen.plot:
        # Drawing takes a second to import.
        from intarsia.dedup.figures import forecast_figure
        from intarsia.simulate.report.write import write_figure

        write_figure(forecast_figure(observed.bytes, found["bytes"]), chosen.plot.with_suffix(""))


def _require_parts(excluded: list[str], there_are: list[str]) -> None:
    for name in excluded:
        if name not in there_are:
            raise DedupError(
                f"--exclude {name}: there is no such part; there are {', '.join(there_are[:20])}"
            )


def as_json(backups: list[Path], observed: Observed, found: dict[str, Forecast]) -> dict[str, Any]:
    """Return all that was found as plain data."""

    def plain(series: Series, forecast: Forecast) -> dict[str, Any]:
        rate = naive_rate(series)
        return {
            "observed": [
                {
                    "backup": str(path),
                    "full": full,
                    "logical": state.logical,
                    "unique": state.unique,
                    "base": state.base,
                    "duplicate": state.duplicate,
                    "stored": state.stored,
                    "ratio": state.ratio,
                }
                for path, full, state in zip(backups, series.fulls, series.states, strict=True)
            ],
            "transitions": [asdict(one) for one in series.transitions],
            "class": {key: str(kind) for key, kind in asdict(data_class(series)).items()},
            "method": str(forecast.method),
            "rates": asdict(forecast.rates),
            "confidence": forecast.confidence,
            "forecast": [
                {
                    "backups": point.backups,
                    "logical": point.state.logical,
                    "unique": point.state.unique,
                    "base": point.state.base,
                    "stored": point.state.stored,
                    "stored_low": point.stored_low,
                    "stored_high": point.stored_high,
                    "ratio": point.ratio,
                    "ratio_low": point.ratio_low,
                    "ratio_high": point.ratio_high,
                    "naive_ratio": naive_ratio(rate, point.backups),
                }
                for point in forecast.points
            ],
        }

    series = {"segments": observed.counts, "bytes": observed.bytes}
    return {kind: plain(series[kind], found[kind]) for kind in series}


def _print(backups: list[Path], series: Series, found: Forecast) -> None:
    rows = []
    for number, (path, state) in enumerate(zip(backups, series.states, strict=True)):
        step = series.transitions[number - 1] if number else None
        rows.append(
            [
                path.name or str(path),
                show_bytes(state.logical),
                show_bytes(state.unique),
                show_bytes(state.base),
                show_bytes(state.stored),
                percent(state.ratio),
                percent(step.usr) if step else "",
                percent(step.bgr) if step else "",
            ]
        )
    print_table(
        "Observed, all backups so far",
        ["after", "logical", "unique", "base", "stored", "ratio", "usr", "bgr"],
        rows,
    )
    rate = naive_rate(series)
    rows = [
        [
            f"{point.backups} backups",
            show_bytes(point.state.logical),
            show_bytes(point.state.stored),
            f"{show_bytes(point.stored_low)} to {show_bytes(point.stored_high)}",
            percent(point.ratio),
            f"{percent(point.ratio_low)} to {percent(point.ratio_high)}",
            percent(naive_ratio(rate, point.backups)),
        ]
        for point in found.points
    ]
    interval = f"{100 * found.confidence:g} % interval"
    print_table(
        "Forecast",
        ["after", "logical", "stored", interval, "ratio", interval, "naive ratio"],
        rows,
    )
    kind = data_class(series)
    print(
        f"New content a backup (usr): {percent(found.rates.usr)}. Of what occurred once, "
        f"{percent(found.rates.bgr)} comes again (bgr).\n"
        f"Class: base {kind.base}, unique {kind.unique}."
    )
    if len(series.fulls) < 6:
        print(
            f"Note: {len(series.fulls)} backups say little of how weeks differ; the interval "
            "assumes 15 % where they do not tell."
        )
