"""`screen`: which knobs of a benchmark matter on a store."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise import commands as shared
from intarsia.characterise.commands.target import add_options, open_target
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import (
    Effect,
    Experiment,
    design_for,
    important,
    main_effects,
    read_experiment,
)
from intarsia.characterise.experiment.design import Kind
from intarsia.characterise.experiment.driver import metrics_of, run_all, table
from intarsia.characterise.experiment.factors import read_built_in
from intarsia.characterise.experiment.figure import effect_figure
from intarsia.simulate.progress import Progress
from intarsia.simulate.report.write import write_figure

_BUILT_IN = ("fio", "fio-published", "postmark")


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "screen",
        "find the knobs of fio or PostMark that matter on a store",
        "Run fio or PostMark at two levels of each knob, in a Plackett-Burman design folded over, "
        "so that the effect of each knob is free of interactions of two; or in a regular fraction "
        "or all of the combinations (--design). Runs are in random order, "
        "warmed up, and checked; an interrupted command goes on where it was. The knobs are those "
        "of a factor file. A block device is only read unless you let it be overwritten, and "
        "refused while it is in use.",
        "  python -m intarsia.characterise screen /mnt/store --out build/screen\n"
        "  python -m intarsia.characterise screen /mnt/store --knobs postmark --out build/small\n"
        "  python -m intarsia.characterise screen . --factors my.toml --seconds 2 --repetitions 2 "
        "--out build/mine\n"
        "  python -m intarsia.characterise screen . --factors my.toml --design full "
        "--out build/all\n"
        "  python -m intarsia.characterise screen . --delay-ms 2 --rate 20MB --out build/slow\n"
        "  python -m intarsia.characterise screen --print-factors > my.toml     to start from\n",
    )
    parser.add_argument(
        "store", type=Path, nargs="?", help="a directory, for files that go again; or a device"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="raw results, plots")
    parser.add_argument("--factors", type=Path, metavar="FILE.toml", help="knobs and levels")
    parser.add_argument(
        "--knobs", choices=_BUILT_IN, default="fio", help="those that come with it (fio)"
    )
    parser.add_argument("--print-factors", action="store_true", help="print the factor file")
    parser.add_argument(
        "--design",
        type=Kind,
        choices=list(Kind),
        default=Kind.PLACKETT_BURMAN,
        help="plackett-burman: fewest runs (default); fractional: resolution IV; full: all",
    )
    parser.add_argument(
        "--no-fold", action="store_true", help="half the runs, effects mixed up with interactions"
    )
    parser.add_argument("--seconds", type=float, help="of each run, instead of the file's")
    parser.add_argument("--repetitions", type=shared.positive, help="instead of the file's")
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Screen and print."""
    if chosen.print_factors:
        print((files("intarsia.characterise.experiment") / f"{chosen.knobs}.toml").read_text())
        return
    if chosen.store is None or chosen.out is None:
        raise CharacteriseError("give a directory, and --out for the results")
    experiment = _experiment(chosen)
    units = metrics_of(experiment)
    names = tuple(one.name for one in experiment.factors)
    if chosen.no_fold and chosen.design is not Kind.PLACKETT_BURMAN:
        raise CharacteriseError("--no-fold: only a Plackett-Burman design is folded over")
    design = design_for(names, chosen.design, folded=not chosen.no_fold)
    started = time.monotonic()
    with (
        open_target(chosen, chosen.store, experiment.size_bytes) as target,
        Progress(experiment.name, len(design.signs) * experiment.repetitions) as progress,
    ):
        runs = run_all(
            experiment,
            design,
            target,
            chosen.out / "runs.jsonl",
            seed=chosen.seed,
            say=lambda _: progress.step(),
        )
    measured = {name: table(runs, design, experiment.repetitions, name) for name in units}
    missing = [name for name, one in measured.items() if not np.isfinite(one).all()]
    effects = {
        name: main_effects(design, one) for name, one in measured.items() if name not in missing
    }
    if not effects:
        raise CharacteriseError("no metric was measured in every run; see runs.jsonl in --out")
    write_figure(effect_figure(effects, units), chosen.out / "effects")
    doubtful = [one for one in runs if one.problems]
    if chosen.json:
        shared.print_json(
            {
                "runs": len(runs),
                "target": target.label,
                "doubtful": [asdict(one) for one in doubtful],
                "missing": missing,
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
    took = f"{len(runs)} runs of {len(names)} knobs, {time.monotonic() - started:.0f} s"
    out.print(f"{target.label}: {took}", soft_wrap=True)
    for metric, found in effects.items():
        _print(metric, units[metric], found)
    for metric in missing:
        out.print(f"{metric}: left out, as not every run has it", style="dim")
    for problem in sorted({text for one in doubtful for text in one.problems}):
        count = sum(problem in one.problems for one in doubtful)
        out.print(f"doubtful: {count} runs: {problem}", style="dim")


def _experiment(chosen: argparse.Namespace) -> Experiment:
    given = chosen.factors
    experiment = read_built_in(chosen.knobs) if given is None else read_experiment(given)
    changes = {"seconds": chosen.seconds, "repetitions": chosen.repetitions}
    return replace(
        experiment, **{name: value for name, value in changes.items() if value is not None}
    )


def _print(metric: str, unit: str, found: list[Effect]) -> None:
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
