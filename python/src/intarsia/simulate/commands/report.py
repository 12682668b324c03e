"""`intarsia simulate report`: write the report of a finished study anew."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from intarsia.simulate.binary import SimulationError
from intarsia.simulate.report.write import write_report
from intarsia.simulate.studies import BUILT_IN
from intarsia.simulate.study.outcome import Outcome


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = commands.add_parser(
        "report",
        help="write the report of a finished study anew",
        description="Draw figures, tables and the HTML page again from the results of a study, "
        "without simulating anything.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the --out of the study")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Write the report."""
    print(write(Outcome.read(chosen.directory), chosen.directory))


def write(outcome: Outcome, directory: Path) -> Path:
    """Write the report on an outcome and return the page."""
    if outcome.user is not None:
        report = outcome.user.report(outcome.frame, outcome.units)
        command = f"intarsia simulate study {outcome.user.name}.toml --out DIR"
    elif outcome.name in BUILT_IN:
        report = BUILT_IN[outcome.name].report(outcome.frame, outcome.units)
        command = f"intarsia simulate study {outcome.name} --out DIR"
    else:
        raise SimulationError(f"{directory}: there is no study {outcome.name!r} in this version")
    seeds = sorted({int(seed) for seed in outcome.frame["seed"]})
    made_with = {
        "command": command + (" --quick" if outcome.is_quick else ""),
        "program": outcome.binary,
        "seed": ", ".join(map(str, seeds)),
        "points": str(len(outcome.frame)),
        "events": f"{int(outcome.frame['events'].sum()):,}",
        "results": "results.parquet, results.csv, results.json",
    }
    return write_report(replace(report, made_with=made_with), directory)
