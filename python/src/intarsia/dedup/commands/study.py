"""`forecast-dedup study`: the published study of backup deduplication, drawn again."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.dedup.commands.common import add_output, add_parser, print_json, print_table

_EXAMPLES = """\
examples:
  intarsia forecast-dedup study --out build/dedup --quick     the shape, in half a minute
  intarsia forecast-dedup study --out build/dedup             all samples, some minutes
  intarsia forecast-dedup study --out build/dedup --redraw    tables and figures from raw/ alone
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "study",
        run,
        help="redraw the tables of the published study, with a verdict on each statement",
        description="Measure raw samples, write them to OUT/raw, and draw from them tables, "
        "figures and report.html with a verdict on each published statement.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="what is written")
    parser.add_argument("--quick", action="store_true", help="few and small samples")
    parser.add_argument("--redraw", action="store_true", help="from the samples in OUT/raw")
    parser.add_argument(
        "--packages",
        type=Path,
        metavar="DIR",
        help="also seven releases of each of five Python packages, which pip downloads to here "
        "(250 MB)",
    )
    parser.add_argument(
        "--history",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="also the backups in this directory, in order by name, as `corpus` makes them; "
        "repeatable",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all draws (1)")
    add_output(parser)


def run(chosen: argparse.Namespace) -> None:
    """Measure or read the samples, and write everything."""
    # pandas and matplotlib take seconds to import, which other commands need not wait for.
    from intarsia import __version__
    from intarsia.dedup.study.claims import claims_of
    from intarsia.dedup.study.report import build
    from intarsia.dedup.study.samples import QUICK, WHOLE, measure, read_samples, write_samples
    from intarsia.simulate.report.write import write_report

    def tell(text: str) -> None:
        if not chosen.quiet:
            print(text, file=sys.stderr, flush=True)

    raw = chosen.out / "raw"
    if chosen.redraw:
        samples = read_samples(raw)
    else:
        size = QUICK if chosen.quick else WHOLE
        samples = measure(size, chosen.seed, chosen.packages, tell, chosen.history)
        write_samples(samples, raw)
        # What is drawn comes from the files alone, so that drawing again gives the same.
        samples = read_samples(raw)
    quick = " --quick" if chosen.quick else ""
    made_with = {
        "command": f"intarsia forecast-dedup study --seed {chosen.seed}{quick}",
        "version": __version__,
    }
    page = write_report(build(samples, made_with, chosen.seed), chosen.out)
    claims = claims_of(samples)
    if chosen.json:
        print_json([{**asdict(claim), "verdict": str(claim.verdict)} for claim in claims])
        return
    rows = [[claim.number, str(claim.verdict), claim.ours] for claim in claims]
    print_table("Published statements", ["statement", "verdict", "found here"], rows)
    print(page)
