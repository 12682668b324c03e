"""`python -m intarsia.refine`: what `intarsia refine` starts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from intarsia.refine.corrections import BOUNDS, Correction
from intarsia.refine.engine import COST, ENGINE, ENGINE_FORMAT, EngineCost, with_engine
from intarsia.refine.profile import COMPARISON_FORMAT, RefineError, read_json, refined
from intarsia.simulate.files import write_atomically
from intarsia.tables import print_table

#: What `intarsia run --advice` leaves in its run directory.
COMPARED = "predicted.json"
_COMPARED = ("id", "profile", "comparison", "hosts", "tasks", "moved_bytes")
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
        profile = read_json(given.profile, "intarsia-profile")
        found_in = [_of(run) for run in given.runs]
        compared = [one for one, _ in found_in if one is not None]
        made, found = refined(profile, compared) if compared else (profile, {})
        made, cost = with_engine(made, [one for _, one in found_in if one is not None])
        write_atomically(given.out, (json.dumps(made, indent=1) + "\n").encode())
    except RefineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    if given.json:
        told = made["measured"].get("refinement", {})
        print(json.dumps(told | {"engine": made.get("engine")}, indent=1))
        return 0
    if compared:
        print_table(f"corrections, between {BOUNDS[0]} and {BOUNDS[1]}", _HEADS, _rows(found))
        for kind in ("compute", "io"):
            if kind not in found:
                print(f"{kind}: too little of it to tell; it stays as it was", file=sys.stderr)
    if cost is not None:
        print(_engine_line(cost))
    print(f"written to {given.out}", file=sys.stderr)
    return 0


def _of(run: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What a run left: a prediction held against it, and what its engine took; one at least."""
    if not run.is_dir():
        return _document(run, COMPARISON_FORMAT, _COMPARED), None
    compared, cost = run / COMPARED, run / ENGINE
    if not compared.exists() and not cost.exists():
        raise RefineError(f"{run}: has neither {COMPARED} nor {ENGINE}; is it a run directory?")
    return (
        _document(compared, COMPARISON_FORMAT, _COMPARED) if compared.exists() else None,
        _document(cost, ENGINE_FORMAT, COST) if cost.exists() else None,
    )


def _document(path: Path, form: str, fields: Collection[str]) -> dict[str, Any]:
    document = read_json(path, form)
    missing = set(fields) - set(document)
    if missing:
        raise RefineError(f"{path}: field {sorted(missing)[0]!r} is missing")
    return document


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
