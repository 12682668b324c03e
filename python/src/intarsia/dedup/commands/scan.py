"""`forecast-dedup scan`: a backup as a list of fingerprints, to keep and to compare."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from intarsia.dedup.chunkers import Chunker
from intarsia.dedup.classes import observe
from intarsia.dedup.commands.common import (
    BACKUP_HELP,
    add_parser,
    add_reading,
    percent,
    print_json,
    read_all,
)
from intarsia.dedup.errors import DedupError
from intarsia.dedup.inputs import is_list
from intarsia.dedup.lists import write_list
from intarsia.dedup.units import show_bytes

_EXAMPLES = """\
examples:
  intarsia forecast-dedup scan /backup/monday --out monday.fp.xz
  intarsia forecast-dedup scan home.tar.gz --chunker fixed:8KiB --out home.fp
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "scan",
        run,
        help="write the fingerprints of a backup to a list",
        description="Cut a backup into segments and write their fingerprints, a line each. The "
        "list stands for the backup in all other commands, so that the backup need not be kept.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("backup", type=Path, metavar="BACKUP", help=BACKUP_HELP)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="LIST", help="compressed if it ends in .gz, .xz"
    )
    add_reading(parser)


def run(chosen: argparse.Namespace) -> None:
    """Read, write, and say what came of it."""
    if is_list(chosen.backup):
        raise DedupError(f"{chosen.backup} is a list already")
    if chosen.out.exists():
        raise DedupError(f"{chosen.out} exists: remove it or name another file")
    (trace,) = read_all([chosen.backup], chosen)
    write_list(trace, str(Chunker.parse(chosen.chunker)), chosen.out)
    state = observe([trace]).bytes.states[0]
    if chosen.json:
        print_json(
            {
                "list": str(chosen.out),
                "segments": len(trace),
                "bytes": trace.bytes,
                "mean_segment_bytes": trace.bytes / len(trace),
                "ratio": state.ratio,
            }
        )
    else:
        print(
            f"{len(trace):,} segments of {show_bytes(trace.bytes / len(trace))} on average, "
            f"{show_bytes(trace.bytes)} in all; alone it is stored in {percent(state.ratio)}"
        )
