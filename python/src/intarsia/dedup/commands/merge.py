"""`forecast-dedup merge`: one store for two data sets."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.dedup.advice import Merged, merge
from intarsia.dedup.commands.common import (
    BACKUP_HELP,
    add_parser,
    add_reading,
    percent,
    positive,
    print_json,
    print_table,
    read_all,
)
from intarsia.dedup.units import show_bytes

_EXAMPLES = """\
example:
  intarsia forecast-dedup merge --first a1.fp a2.fp a3.fp --second b1.fp b2.fp b3.fp --horizon 8
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "merge",
        run,
        help="forecast one store for two data sets",
        description="Superpose the rates of two data sets, as if they shared nothing, and beside "
        "it measure them together: the difference is what they share.",
        epilog=_EXAMPLES,
    )
    for name in ("first", "second"):
        parser.add_argument(
            f"--{name}", nargs="+", type=Path, required=True, metavar="BACKUP", help=BACKUP_HELP
        )
    parser.add_argument(
        "--horizon", type=positive, default=4, metavar="N", help="further full backups (4)"
    )
    add_reading(parser)


def run(chosen: argparse.Namespace) -> None:
    """Read both, merge and print."""
    traces = read_all([*chosen.first, *chosen.second], chosen)
    edge = len(chosen.first)
    counts, weighed = merge(traces[:edge], traces[edge:], chosen.horizon)
    if chosen.json:
        print_json({"segments": _plain(counts), "bytes": _plain(weighed)})
        return
    now = len(chosen.first)
    states = zip(
        (weighed.superposed, *weighed.superposed_ahead),
        (weighed.together, *weighed.together_ahead),
        strict=True,
    )
    rows = [
        [
            f"{now + ahead} backups",
            show_bytes(apart.logical),
            show_bytes(apart.stored),
            percent(apart.ratio),
            show_bytes(one.stored),
            percent(one.ratio),
        ]
        for ahead, (apart, one) in enumerate(states)
    ]
    print_table(
        "Two data sets in one store",
        ["after", "logical", "superposed", "ratio", "together", "ratio"],
        rows,
    )
    print(
        f"They share {show_bytes(weighed.shared)}, {percent(weighed.shared_share)} of what they "
        "store apart" + (": superposing them is right." if weighed.shared_share < 0.01 else ".")
    )


def _plain(merged: Merged) -> dict[str, Any]:
    def state(one: Any) -> dict[str, float]:
        return {**asdict(one), "stored": one.stored, "ratio": one.ratio}

    return {
        "shared": merged.shared,
        "shared_share": merged.shared_share,
        "superposed_rates": asdict(merged.superposed_rates),
        "together_rates": asdict(merged.together_rates),
        "superposed": [state(one) for one in (merged.superposed, *merged.superposed_ahead)],
        "together": [state(one) for one in (merged.together, *merged.together_ahead)],
    }
