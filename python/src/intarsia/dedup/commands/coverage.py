"""`forecast-dedup coverage`: whether the intervals of `sample` keep what they promise."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from intarsia.dedup.commands.common import (
    add_output,
    add_parser,
    percent,
    positive,
    print_json,
    print_table,
    share,
)
from intarsia.dedup.coverage import POPULATIONS, SHARES, Trial, trials

_EXAMPLES = """\
example:
  intarsia forecast-dedup coverage --cases 200
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "coverage",
        run,
        help="count how often the interval of a sample holds the truth",
        description="Draw samples from populations whose ratio is known, estimate, and count.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--cases", type=positive, default=200, metavar="N", help="trials (200)")
    parser.add_argument(
        "--segments", type=positive, default=200_000, metavar="N", help="of each (200000)"
    )
    parser.add_argument("--confidence", type=share, default=0.95, metavar="SHARE", help="(0.95)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all draws (1)")
    add_output(parser)


def run(chosen: argparse.Namespace) -> None:
    """Run the trials and print."""
    found = list(trials(chosen.cases, chosen.segments, chosen.seed, chosen.confidence))
    held = sum(one.holds for one in found)
    if chosen.json:
        print_json({"cases": len(found), "held": held, "trials": [asdict(one) for one in found]})
        return
    rows = [
        [name, percent(part), *_summary(mine)]
        for name in POPULATIONS
        for part in SHARES
        if (mine := [one for one in found if one.population == name and one.share == part])
    ]
    print_table(
        "Estimates from samples",
        ["population", "share", "held", "truth", "estimate", "width", "naive"],
        rows,
    )
    print(f"{held} of {len(found)} intervals hold the truth: {percent(held / len(found))}")


def _summary(mine: list[Trial]) -> list[str]:
    """Return how many held, and means of the ratios; the width is a share of the truth."""
    count = len(mine)
    return [
        f"{sum(one.holds for one in mine)} of {count}",
        percent(sum(one.truth for one in mine) / count),
        percent(sum(one.ratio for one in mine) / count),
        percent(sum((one.high - one.low) / one.truth for one in mine) / count),
        percent(sum(one.naive for one in mine) / count),
    ]
