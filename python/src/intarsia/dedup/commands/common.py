"""What the commands share: options, reading with progress, tables."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from intarsia.dedup.chunkers import Chunker
from intarsia.dedup.errors import DedupError
from intarsia.dedup.inputs import input_bytes, read_backup
from intarsia.dedup.progress import reading
from intarsia.dedup.trace import Trace

_WORDS = {"advice", "reason", "verdict", "found here"}
# Of lines that go to a file.
_WIDTH = 110

BACKUP_HELP = "a full backup: a directory, a tar, or a list of fingerprints"


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def share(text: str) -> float:
    """Read a share above 0 and up to 1, also as 5%."""
    number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share above 0 and up to 1, such as 0.05")
    return number


def add_parser(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], **texts: str
) -> argparse.ArgumentParser:
    """Make the parser of one command, with examples below."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, formatter_class=argparse.RawDescriptionHelpFormatter, **texts
    )
    parser.set_defaults(run=run)
    return parser


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add what all commands take that read backups."""
    parser.add_argument(
        "--chunker",
        default="fastcdc",
        metavar="KIND",
        help="how files are cut: fastcdc[:SMALLEST,AVERAGE,LARGEST], fixed[:SIZE] or file, with "
        "sizes as in 8KiB (fastcdc:4KiB,8KiB,16KiB); lists are cut already",
    )
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--quiet`."""
    parser.add_argument("--json", action="store_true", help="print JSON; ratios are shares")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def read_all(paths: Sequence[Path], chosen: argparse.Namespace) -> list[Trace]:
    """Read backups and show how far that is."""
    chunker = Chunker.parse(chosen.chunker)
    for path in paths:
        if not path.exists():
            raise DedupError(f"{path} does not exist: give a directory, a tar or a list")
    total = sum(input_bytes(path) for path in paths)
    with reading(total, chosen.quiet) as tell:
        traces = [read_backup(path, chunker, tell) for path in paths]
    _require_cut_alike(traces)
    return traces


def _require_cut_alike(traces: Sequence[Trace]) -> None:
    known = [trace for trace in traces if trace.cut]
    for trace in known[1:]:
        if trace.cut != known[0].cut:
            raise DedupError(
                f"{known[0].name} was cut by {known[0].cut}, and {trace.name} by {trace.cut}: what "
                "was cut in other ways shares nothing; scan both alike"
            )


def print_json(content: Any) -> None:
    """Print for programs."""
    print(json.dumps(content, indent=2))


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: words to the left, which stand in the first column and under `_WORDS`."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(
            head, justify="right" if number and head not in _WORDS else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    console.print(table)


def percent(value: float) -> str:
    """Write a share as per cent.

    >>> percent(0.2345)
    '23.45 %'
    """
    return f"{100 * value:.2f} %"
