"""`migrate`: move files between directories, with verification, a bounded rate, and undo."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from intarsia.characterise import commands as shared
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.migrate import migrate, plan_of, undo
from intarsia.characterise.units import size_of, size_text


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "migrate",
        "move a file or a tree to a directory of another store",
        "Say what moving would do; with --yes, do it: copy at a bounded rate, read everything "
        "back, "
        "and only then remove the source, or leave a link there. An interrupted move goes on "
        "when it "
        "is given again; --undo brings it back. What writes to the files must have stopped.",
        "  python -m intarsia.characterise migrate /slow/shop /fast                 what would "
        "be done\n"
        "  python -m intarsia.characterise migrate /slow/shop /fast --rate 50MB --link --yes\n"
        "  python -m intarsia.characterise migrate --undo /fast/.shop.migration.json\n",
    )
    parser.add_argument("source", type=Path, nargs="?", help="a file or a directory")
    parser.add_argument("directory", type=Path, nargs="?", help="where it goes, under its name")
    parser.add_argument("--rate", metavar="SIZE", help="bytes a second at most, such as 50MB")
    parser.add_argument("--link", action="store_true", help="leave a link at the source")
    parser.add_argument("--yes", action="store_true", help="do it")
    parser.add_argument("--undo", type=Path, metavar="JOURNAL", help="bring a migration back")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Move, or say what would be moved."""
    if chosen.undo is not None:
        journal = undo(chosen.undo)
        _tell(chosen, {"undone": str(journal.source)}, f"{journal.source} is back")
        return
    if chosen.source is None or chosen.directory is None:
        raise CharacteriseError("give what to move and the directory where it goes, or --undo")
    plan = plan_of(chosen.source, chosen.directory)
    found = {
        "source": str(plan.source), "target": str(plan.target), "files": plan.files,
        "bytes": plan.bytes, "journal": str(plan.journal), "done": chosen.yes,
    }  # fmt: skip
    what = f"{plan.files} files, {size_text(plan.bytes)}, from {plan.source} to {plan.target}"
    if not chosen.yes:
        _tell(chosen, found, f"would move {what}; --yes does it")
        return
    rate = None if chosen.rate is None else size_of(chosen.rate, "--rate")
    if rate is not None and rate <= 0:
        raise CharacteriseError(f"--rate {chosen.rate}: give a rate above 0")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("moving", total=plan.bytes)
        migrate(
            chosen.source,
            chosen.directory,
            bytes_per_second=rate,
            link=chosen.link,
            say=lambda count: progress.advance(task, count),
        )
    _tell(chosen, found, f"moved {what}; undo with --undo {plan.journal}")


def _tell(chosen: argparse.Namespace, found: dict[str, Any], text: str) -> None:
    if chosen.json:
        shared.print_json(found)
    else:
        shared.console().print(text, soft_wrap=True)
