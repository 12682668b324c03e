"""`python -m intarsia.refine`: what `intarsia refine` starts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from intarsia.refine.corrections import BOUNDS, Correction
from intarsia.refine.engine import EngineCost
from intarsia.refine.profile import RefineError
from intarsia.refine.runs import COMPARED, refine_file
from intarsia.tables import print_table

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
        description="Correct a profile by what runs took that were predicted with it, and by what "
        "the engine took for each of their tasks; the latter any run tells.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("profile", metavar="PROFILE", type=Path)
    made.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=Path,
        help=f"run directories of intarsia run, or files {COMPARED} of them",
    )
    made.add_argument("--out", metavar="FILE", type=Path, required=True, help="the new profile")
    made.add_argument("--json", action="store_true", help="print the corrections as JSON")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Refine a profile; returns the exit code."""
    given = parser().parse_args(words)
    try:
        done = refine_file(given.profile, given.runs, given.out)
    except RefineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    if given.json:
        told = done.profile["measured"].get("refinement", {})
        print(json.dumps(told | {"engine": done.profile.get("engine")}, indent=1))
        return 0
    if done.is_compared:
        rows = _rows(done.corrections)
        print_table(f"corrections, between {BOUNDS[0]} and {BOUNDS[1]}", _HEADS, rows)
        for kind in ("compute", "io"):
            if kind not in done.corrections:
                print(f"{kind}: too little of it to tell; it stays as it was", file=sys.stderr)
    if done.cost is not None:
        print(_engine_line(done.cost))
    print(f"written to {given.out}", file=sys.stderr)
    return 0


def _engine_line(cost: EngineCost) -> str:
    return (
        f"engine: {cost.task_s * 1e3:.2f} ms a task one after the other, {cost.start_s * 1e3:.2f} "
        f"ms to start it, by {cost.tasks} tasks"
    )


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
