"""`compare`: all models side by side on left-out loads."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.characterise import commands as shared
from intarsia.characterise import samples
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.model import evaluate, process
from intarsia.characterise.model.base import Samples

_COLUMNS = ("model", "mean error, ms", "largest, ms", "median error", "in 90 %", "in 95 %", "width")


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "compare",
        "compare models of stores on loads they have not seen",
        "Fit Basil, Pesto, the full factorial, the published model with its printed and its true "
        "interval, the published form on relative errors, gradient boosting and our model to the "
        "same three quarters of the samples of each store, and judge them on the fourth quarter; "
        "with --later to all, and judge them on what was measured later.",
        "  python -m intarsia.characterise compare fast.csv slow.csv\n"
        "  python -m intarsia.characterise compare fast.csv --later fast-next-day.csv\n"
        "  python -m intarsia.characterise compare fast.csv --json > table.json\n",
    )
    parser.add_argument(
        "samples", type=Path, nargs="+", metavar="SAMPLES.csv", help="of each store"
    )
    parser.add_argument(
        "--later",
        type=Path,
        nargs="+",
        default=[],
        metavar="SAMPLES.csv",
        help="judge on these, measured in a later session, in the order of the stores: what a "
        "store that has changed since does to each model shows too",
    )
    parser.add_argument("--by-store", action="store_true", help="a table for each store as well")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Compare and print."""
    names = [path.stem for path in chosen.samples]
    if len(set(names)) < len(names):
        raise CharacteriseError("two sample files have one name; the name is that of the store")
    parts = dict(zip(names, _parts(chosen), strict=True))
    found = evaluate.compare(
        {name: part[0] for name, part in parts.items()},
        {name: part[1] for name, part in parts.items()},
    )
    if chosen.json:
        shared.print_json(
            {
                model: {name: asdict(one) for name, one in rows.items()}
                for model, rows in found.items()
            }
        )
        return
    split = "judged on later ones" if chosen.later else "judged on 1/4"
    share = "all" if chosen.later else "3/4 of the"
    tables = [("all stores", None), *((name, name) for name in names if chosen.by_store)]
    for title, store in tables:
        rows = {m: evaluate.pooled(by) if store is None else by[store] for m, by in found.items()}
        shared.console().print(f"{title}: fitted on {share} samples, {split}", style="bold")
        shared.print_table(_COLUMNS, [_row(model, one) for model, one in rows.items()])
        ours = rows[evaluate.OURS].mean_ms
        best = min(evaluate.BASELINES, key=lambda name: rows[name].mean_ms)
        shared.console().print(
            f"mean error of ours over that of {best}: {ours / rows[best].mean_ms:.2f}\n"
        )


def _parts(chosen: argparse.Namespace) -> list[tuple[Samples, Samples]]:
    """Return for each store the samples to fit on and those to judge on."""
    all_of = [samples.read(path).single for path in chosen.samples]
    if not chosen.later:
        return [evaluate.split(one) for one in all_of]
    if len(chosen.later) != len(all_of):
        raise CharacteriseError(
            f"--later: {len(chosen.later)} files for {len(all_of)} stores; give one for each, in "
            "the same order"
        )
    return [
        (one, _inside(one, samples.read(path).single, path))
        for one, path in zip(all_of, chosen.later, strict=True)
    ]


def _inside(measured: Samples, later: Samples, path: Path) -> Samples:
    """Return the later loads that lie where the store was measured; say how many do not."""
    inside = process.is_inside(measured, later.points)
    if not inside.any():
        raise CharacteriseError(f"{path}: no load lies where the store was measured before")
    if not inside.all():
        shared.say(f"{path}: {int((~inside).sum())} loads outside what was measured are left out")
    return later.part(inside)


def _row(model: str, one: evaluate.Errors) -> list[str]:
    # Some models say nothing of their error.
    interval = ["–"] * 3 if one.width == 0 else [
        f"{one.coverage_90:.1%}", f"{one.coverage_95:.1%}", f"{one.width:.2f}"
    ]  # fmt: skip
    return [
        model, f"{one.mean_ms:.3g}", f"{one.largest_ms:.4g}", f"{one.median_relative:.1%}",
        *interval,
    ]  # fmt: skip
