"""`screen`: which knobs of a benchmark matter on a store."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from intarsia.characterise import commands as shared
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import (
    Effect,
    design_for,
    important,
    main_effects,
    read_experiment,
)
from intarsia.characterise.experiment.driver import METRICS, run_all, table
from intarsia.characterise.experiment.figure import effect_figure
from intarsia.simulate.progress import Progress
from intarsia.simulate.report.write import write_figure


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "screen",
        "find the knobs of fio that matter in a directory",
        "Run fio at two levels of each knob, in a Plackett-Burman design folded over, so that "
        "the effect "
        "of each knob is free of interactions of two. Runs are in random order, warmed up, and "
        "checked; "
        "an interrupted command goes on where it was. The knobs are those of a factor file.",
        "  python -m intarsia.characterise screen /mnt/store --out build/screen\n"
        "  python -m intarsia.characterise screen . --factors my.toml --seconds 2 --repetitions 2 "
        "--out build/mine\n"
        "  python -m intarsia.characterise screen --print-factors > my.toml     to start from\n",
    )
    parser.add_argument("directory", type=Path, nargs="?", help="where fio makes and removes files")
    parser.add_argument("--out", type=Path, metavar="DIR", help="raw results, plots")
    parser.add_argument("--factors", type=Path, metavar="FILE.toml", help="knobs and levels")
    parser.add_argument("--print-factors", action="store_true", help="print the usual factor file")
    parser.add_argument("--no-fold", action="store_true", help="half the runs, effects mixed up")
    parser.add_argument("--seconds", type=float, help="of each run, instead of the file's")
    parser.add_argument("--repetitions", type=shared.positive, help="instead of the file's")
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Screen and print."""
    usual = files("intarsia.characterise.experiment") / "fio.toml"
    if chosen.print_factors:
        print(usual.read_text(), end="")
        return
    if chosen.directory is None or chosen.out is None:
        raise CharacteriseError("give a directory, and --out for the results")
    with as_file(usual) as path:
        experiment = read_experiment(chosen.factors or path)
    changes = {"seconds": chosen.seconds, "repetitions": chosen.repetitions}
    wanted = {name: value for name, value in changes.items() if value is not None}
    experiment = type(experiment)(**{**experiment.__dict__, **wanted})
    names = tuple(one.name for one in experiment.factors)
    design = design_for(names, folded=not chosen.no_fold)
    total = len(design.signs) * experiment.repetitions
    started = time.monotonic()
    with Progress(experiment.name, total) as progress:
        runs = run_all(
            experiment,
            design,
            chosen.directory,
            chosen.out / "runs.jsonl",
            seed=chosen.seed,
            say=lambda _: progress.step(),
        )
    effects = {
        metric: main_effects(design, table(runs, design, experiment.repetitions, metric))
        for metric in METRICS
    }
    write_figure(effect_figure(effects, METRICS), chosen.out / "effects")
    doubtful = [one for one in runs if one.problems]
    if chosen.json:
        shared.print_json(
            {
                "runs": len(runs),
                "doubtful": [asdict(one) for one in doubtful],
                "effects": {
                    name: [asdict(one) for one in found] for name, found in effects.items()
                },
                "important": {
                    name: [one.name for one in important(found)] for name, found in effects.items()
                },
            }
        )
        return
    out = shared.console()
    out.print(f"{len(runs)} runs of {len(names)} knobs, {time.monotonic() - started:.0f} s")
    for metric, found in effects.items():
        _print(metric, found)
    for problem in sorted({text for one in doubtful for text in one.problems}):
        count = sum(problem in one.problems for one in doubtful)
        out.print(f"doubtful: {count} runs: {problem}", style="dim")


def _print(metric: str, found: list[Effect]) -> None:
    unit = METRICS[metric]
    chosen = important(found)
    shared.console().print(
        f"{metric}: {', '.join(one.name for one in chosen)} make up "
        f"{sum(one.share for one in chosen):.0%} of all effects",
        style="bold",
    )
    rows = [
        [
            one.name, f"{one.value:+.3g}", f"{one.low:+.3g} to {one.high:+.3g}",
            f"{one.share:.0%}" if not one.is_dummy else "noise", "" if one.is_clear else "unclear",
        ]
        for one in found
    ]  # fmt: skip
    shared.print_table(["knob", f"effect, {unit}", "95 % interval", "share", ""], rows)
