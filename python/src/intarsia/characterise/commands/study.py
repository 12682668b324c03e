"""`study`: the published study of stores and balancing, drawn again."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.characterise import commands as shared


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "study",
        "redraw the tables of the published study, with a verdict on each figure",
        "Measure raw samples on simulated stores, write them to OUT/raw, and draw from them all "
        "tables, figures and report.html with a verdict on each published figure. --fio and "
        "--postmark add what `screen` measured on a real directory.",
        "  python -m intarsia.characterise study --out build/study --quick     the shape\n"
        "  python -m intarsia.characterise study --out build/study\n"
        "  python -m intarsia.characterise study --out build/study --redraw    from raw/ alone\n"
        "  python -m intarsia.characterise study --out build/study --fio build/fio --postmark "
        "build/small --redraw\n",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="what is written")
    parser.add_argument("--quick", action="store_true", help="few and small samples")
    parser.add_argument("--redraw", action="store_true", help="from the samples in OUT/raw")
    parser.add_argument(
        "--oracle",
        action="store_true",
        help="also balance by the truth itself: what can be reached",
    )
    for name in ("fio", "postmark"):
        parser.add_argument(
            f"--{name}", type=Path, metavar="DIR", help=f"`screen --out` of the knobs of {name}"
        )
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Measure or read the samples, and write everything."""
    # pandas takes a second to import, which other commands need not wait for.
    from intarsia import __version__
    from intarsia.characterise.study.claims import claims_of
    from intarsia.characterise.study.report import build
    from intarsia.characterise.study.samples import (
        QUICK,
        SCREENS,
        WHOLE,
        keep_screen,
        measure,
        read,
    )
    from intarsia.simulate.report.write import write_report

    directory = chosen.out / "raw"
    for name in SCREENS:
        if (given := getattr(chosen, name)) is not None:
            keep_screen(directory, name, given)
    if not chosen.redraw:
        size = QUICK if chosen.quick else WHOLE
        measure(size, chosen.seed, directory, shared.say, with_oracle=chosen.oracle)
    # What is drawn comes from the files alone, so that drawing again gives the same.
    raw = read(directory)
    made_with = {
        "command": f"python -m intarsia.characterise study --seed {chosen.seed}"
        + "".join(f" --{name}" for name in ("quick", "oracle") if getattr(chosen, name)),
        "version": __version__,
    }
    page = write_report(build(raw, made_with), chosen.out)
    claims = claims_of(raw)
    if chosen.json:
        shared.print_json([{**asdict(one), "verdict": str(one.verdict)} for one in claims])
        return
    rows = [[one.number, str(one.verdict), one.ours] for one in claims]
    shared.print_table(["published figure", "verdict", "found here"], rows, left=2)
    shared.console().print(str(page))
