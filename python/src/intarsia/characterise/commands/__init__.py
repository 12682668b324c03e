"""The commands, one a module; and what they share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.model.process import StoreModel

# Of lines that go to a file.
_WIDTH = 120


def console() -> Console:
    """Return where results are printed for people."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_WIDTH)


def say(text: str) -> None:
    """Print progress, beside the results."""
    Console(stderr=True, highlight=False).print(text, soft_wrap=True, markup=False)


def print_json(data: Any) -> None:
    """Print a result for programs."""
    print(json.dumps(data, indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Print a table, of which the first `left` columns are words."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < left else "right", no_wrap=number < left)
    for row in rows:
        table.add_row(*row)
    console().print(table)


def add(commands: Any, name: str, summary: str, text: str, examples: str) -> Any:
    """Add a command with a help that teaches."""
    return commands.add_parser(
        name,
        help=summary,
        description=text,
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def confidence(text: str) -> float:
    """Read a confidence: 0.9 or 90%."""
    try:
        value = float(text.rstrip("% ")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1; write 0.9 or 90%%")
    return value


def positive(text: str) -> int:
    """Read a number of things."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return value


def read_model(path: Path) -> StoreModel:
    """Read a model that `fit` wrote."""
    try:
        data = json.loads(path.read_text())
    except ValueError as error:
        raise CharacteriseError(f"{path}: {error}; `fit` writes a model") from None
    try:
        return StoreModel.from_json(data)
    except CharacteriseError as error:
        raise CharacteriseError(f"{path}: {error}") from None
