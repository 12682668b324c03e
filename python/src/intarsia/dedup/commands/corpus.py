"""`forecast-dedup corpus`: backups with churn, to try the other commands on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from intarsia.dedup.commands.common import add_parser, positive
from intarsia.dedup.corpora.debian import fetch_packages
from intarsia.dedup.corpora.packages import fetch_releases
from intarsia.dedup.corpora.source import pack_revisions
from intarsia.dedup.corpora.trees import TREES, make_backups
from intarsia.dedup.errors import DedupError

_EXAMPLES = """\
examples:
  intarsia forecast-dedup corpus --tree desktop --fulls 5 --out /tmp/corpus
  intarsia forecast-dedup corpus --release django==4.2.1 --release django==4.2.2 --out /tmp/django
  intarsia forecast-dedup corpus --debian linux-headers-6.1.0-47-common \\
      --debian linux-headers-6.1.0-50-common --out /tmp/headers
  intarsia forecast-dedup corpus --git . --revision v1.0 --revision v1.1 --out /tmp/source
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "corpus",
        run,
        help="make full backups with churn: from a seed, from packages or from a source tree",
        description="Write full backups in the order given: directories that are generated, "
        "releases of Python packages, which pip downloads, packages of Debian, which apt-get "
        "downloads, or a tar of each revision of a source tree.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--tree", choices=list(TREES), help="what is generated")
    parser.add_argument(
        "--release", action="append", default=[], metavar="NAME==VERSION", help="repeatable"
    )
    parser.add_argument(
        "--debian", action="append", default=[], metavar="NAME[=VERSION]", help="repeatable"
    )
    parser.add_argument("--git", type=Path, metavar="DIR", help="a repository, for --revision")
    parser.add_argument(
        "--revision", action="append", default=[], metavar="REV", help="of --git; repeatable"
    )
    parser.add_argument("--fulls", type=positive, default=5, metavar="N", help="backups (5)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the churn (1)")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="times as many files")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new directory")


def run(chosen: argparse.Namespace) -> None:
    """Make them and print their paths, oldest first."""
    given = [bool(one) for one in (chosen.tree, chosen.release, chosen.debian, chosen.git)]
    if sum(given) != 1:
        raise DedupError("give one of --tree, --release, --debian and --git")
    if bool(chosen.git) != bool(chosen.revision):
        raise DedupError("--git and --revision belong together: name the revisions, oldest first")
    if chosen.release:
        made = fetch_releases(chosen.out, chosen.release)
    elif chosen.debian:
        made = fetch_packages(chosen.out, chosen.debian)
    elif chosen.git:
        made = pack_revisions(chosen.git, chosen.revision, chosen.out)
    else:
        made = make_backups(chosen.out, chosen.tree, chosen.seed, chosen.fulls, chosen.scale)
    for path in made:
        print(path)
