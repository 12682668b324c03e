"""`python -m intarsia.refine`: what `intarsia refine` starts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intarsia.refine.corrections import BOUNDS, Correction
from intarsia.refine.profile import COMPARISON_FORMAT, RefineError, read_json, refined
from intarsia.simulate.files import write_atomically
from intarsia.tables import print_table

#: What `intarsia run --advice` leaves in its run directory.
COMPARED = "predicted.json"
_HEADS = ("kind of work", "takes", "runs", "least", "most", "left out")

_EXAMPLES = """\
Examples:
  intarsia run blast.json --up /mnt/work --advice advice.json      leaves .run-blast/predicted.json
  intarsia refine cluster.json /mnt/work/.run-blast --out refined.json
  intarsia advise blast.json --profile refined.json

A run that was predicted with a refined profile refines that one further. Each run counts once."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="intarsia refine",
        description="Correct a profile by what runs took that were predicted with it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("profile", metavar="PROFILE", type=Path)
    made.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=Path,
        help=f"run directories, or files {COMPARED} of them",
    )
    made.add_argument("--out", metavar="FILE", type=Path, required=True, help="the new profile")
    made.add_argument("--json", action="store_true", help="print the corrections as JSON")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Refine a profile; returns the exit code."""
    given = parser().parse_args(words)
    try:
        profile = read_json(given.profile, "intarsia-profile")
        made, found = refined(
            profile, [comparison for run in given.runs for comparison in _of(run)]
        )
        write_atomically(given.out, (json.dumps(made, indent=1) + "\n").encode())
    except RefineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(made["measured"]["refinement"], indent=1))
        return 0
    print_table(f"corrections, between {BOUNDS[0]} and {BOUNDS[1]}", _HEADS, _rows(found))
    for kind in ("compute", "io"):
        if kind not in found:
            print(f"{kind}: too little of it to tell; it stays as it was", file=sys.stderr)
    print(f"written to {given.out}", file=sys.stderr)
    return 0


def _of(run: Path) -> list[dict[str, Any]]:
    path = run / COMPARED if run.is_dir() else run
    document = read_json(path, COMPARISON_FORMAT)
    missing = {"id", "profile", "comparison", "hosts", "tasks", "moved_bytes"} - set(document)
    if missing:
        raise RefineError(f"{path}: field {sorted(missing)[0]!r} is missing")
    return [document]


def _rows(found: Mapping[str, Correction]) -> list[tuple[str, ...]]:
    return [
        (
            kind,
            f"{one.factor:.3f} times as long",
            str(one.runs),
            f"{one.low:.3f}",
            f"{one.high:.3f}",
            str(one.left_out),
        )
        for kind, one in found.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
