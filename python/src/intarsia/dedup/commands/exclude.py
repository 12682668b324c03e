"""`forecast-dedup exclude`: which directories deduplication does nothing for."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.dedup.advice import Part, parts
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
from intarsia.dedup.units import show_bytes

_EXAMPLES = """\
examples:
  intarsia forecast-dedup exclude /backup/week1 /backup/week2 /backup/week3
  intarsia forecast-dedup exclude w1.fp w2.fp w3.fp --depth 2 --usr-from 40% --json
"""


def describe(commands: Any) -> None:
    """Describe the command line."""
    parser = add_parser(
        commands,
        "exclude",
        run,
        help="say which directories to leave out of deduplication",
        description="Find working sets: directories of which most is new in each backup and "
        "hardly any of that comes back. They fill the index and save next to nothing.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("backups", nargs="+", type=Path, metavar="BACKUP", help=BACKUP_HELP)
    parser.add_argument(
        "--depth", type=positive, default=1, metavar="N", help="levels of directories (1)"
    )
    parser.add_argument(
        "--usr-from", type=share, default=0.5, metavar="SHARE", help="new in each backup (0.5)"
    )
    parser.add_argument(
        "--bgr-to", type=share, default=0.2, metavar="SHARE", help="of that comes back (0.2)"
    )
    add_reading(parser)


def run(chosen: argparse.Namespace) -> None:
    """Judge the parts and print."""
    if len(chosen.backups) < 2:
        raise DedupError("one backup does not show what changes: give two full backups or more")
    found = parts(read_all(chosen.backups, chosen), chosen.depth, chosen.usr_from, chosen.bgr_to)
    if chosen.json:
        print_json({"parts": [asdict(part) for part in found], "together": _together(found)})
        return
    rows = [
        [
            part.name,
            "exclude" if part.exclude else "keep",
            show_bytes(part.bytes_a_backup),
            percent(part.usr),
            percent(part.bgr),
            show_bytes(part.saved_a_backup),
            part.reason,
        ]
        for part in found
    ]
    print_table(
        "Parts, averages a backup",
        ["part", "advice", "bytes", "usr", "bgr", "saved", "reason"],
        rows,
    )
    sums = _together(found)
    if sums["parts"]:
        print(
            f"Excluding {sums['parts']} of {len(found)} spares {percent(sums['index_share'])} of "
            f"the index's new entries and costs {show_bytes(sums['lost_bytes'])} a backup that "
            "deduplication would have saved."
        )
    else:
        print("Nothing to exclude.")


def _together(found: list[Part]) -> dict[str, Any]:
    """What excluding all that is advised brings and costs, a backup."""
    out = [part for part in found if part.exclude]
    new = sum(part.usr * part.segments_a_backup for part in found)
    spared = sum(part.usr * part.segments_a_backup for part in out)
    return {
        "parts": len(out),
        "index_share": spared / new if new else 0.0,
        "lost_bytes": sum(part.saved_a_backup for part in out),
    }
