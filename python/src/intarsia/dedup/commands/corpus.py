"""`forecast-dedup corpus`: backups with churn, to try the other commands on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from intarsia.dedup.commands.common import add_parser, positive
from intarsia.dedup.corpora.packages import fetch_releases
from intarsia.dedup.corpora.trees import TREES, make_backups
from intarsia.dedup.errors import DedupError

_EXAMPLES = """\
examples:
  intarsia forecast-dedup corpus --tree desktop --fulls 5 --out /tmp/corpus
  intarsia forecast-dedup corpus --release django==4.2.1 --release django==4.2.2 --out /tmp/django
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "corpus",
        run,
        help="make full backups with churn, from a seed or from releases of a package",
        description="Write a directory for each full backup: generated, or releases of Python "
        "packages in the order given, which pip downloads.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--tree", choices=list(TREES), help="what is generated")
    parser.add_argument(
        "--release", action="append", default=[], metavar="NAME==VERSION", help="repeatable"
    )
    parser.add_argument("--fulls", type=positive, default=5, metavar="N", help="backups (5)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the churn (1)")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="times as many files")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new directory")


def run(chosen: argparse.Namespace) -> None:
    """Make them and print their paths, oldest first."""
    if bool(chosen.tree) == bool(chosen.release):
        raise DedupError("give either --tree or --release")
    if chosen.release:
        made = fetch_releases(chosen.out, chosen.release)
    else:
        made = make_backups(chosen.out, chosen.tree, chosen.seed, chosen.fulls, chosen.scale)
    for path in made:
        print(path)
