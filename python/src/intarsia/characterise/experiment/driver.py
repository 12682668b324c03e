"""Runs of a design: in random order, resumable, warmed up, and looked at before they count."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import fio, postmark
from intarsia.characterise.experiment.design import Design
from intarsia.characterise.experiment.factors import Experiment, Tool
from intarsia.characterise.experiment.target import Target
from intarsia.characterise.load import Floats
from intarsia.simulate.files import write_atomically

_TOOLS: dict[Tool, ModuleType] = {Tool.FIO: fio, Tool.POSTMARK: postmark}


@dataclass(frozen=True)
class Run:
    """One run of a design."""

    row: int
    repetition: int
    metrics: dict[str, float]
    problems: tuple[str, ...]
    """Why the run may not measure the store; it counts all the same, and the report says so."""


def metrics_of(experiment: Experiment) -> dict[str, str]:
    """Return the metrics that an experiment looks at, with their units.

    Raises `CharacteriseError` for one that its tool does not have.
    """
    tool = _TOOLS[experiment.tool]
    wanted = experiment.metrics or tool.USUAL
    for name in wanted:
        if name not in tool.METRICS:
            raise CharacteriseError(
                f"experiment.metrics: {experiment.tool} has no {name}; it has "
                f"{', '.join(tool.METRICS)}"
            )
    return {name: tool.METRICS[name] for name in wanted}


def run_all(
    experiment: Experiment,
    design: Design,
    target: Target,
    results: Path,
    *,
    seed: int = 1,
    say: Callable[[Run], None] = lambda _: None,
) -> list[Run]:
    """Do all runs that `results` does not have yet, and return all.

    Each repetition has its own random order, so that what changes with time meets all levels alike.
    Raises `CharacteriseError` when the tool is missing or fails, or the target goes away; what was
    measured until then stays.
    """
    tool = _TOOLS[experiment.tool]
    tool.require(experiment, design, target)
    target.require()
    header = {
        "experiment": asdict(experiment),
        "target": target.label,
        "names": list(design.names),
        "is_folded": design.is_folded,
        "signs": design.signs.tolist(),
        "seed": seed,
    }
    done = _resume(results, header)
    have = {(one.row, one.repetition) for one in done}
    for repetition in range(experiment.repetitions):
        order = np.random.default_rng([seed, repetition]).permutation(len(design.signs))
        for row in (int(one) for one in order):
            if (row, repetition) in have:
                continue
            target.require()
            made = Run(row, repetition, *tool.run(experiment, design, row, target))
            # Else it may have run somewhere else.
            target.require()
            with open(results, "a") as file:
                file.write(json.dumps(asdict(made)) + "\n")
            done.append(made)
            say(made)
    return done


def table(runs: list[Run], design: Design, repetitions: int, metric: str) -> Floats:
    """Return a metric with a row for each run of the design and a column for each repetition."""
    found = np.full((len(design.signs), repetitions), np.nan)
    for one in runs:
        found[one.row, one.repetition] = one.metrics[metric]
    return found


def read_runs(results: Path) -> tuple[dict[str, Any], Design, list[Run]]:
    """Read what `run_all` wrote: what was run, its design, the runs.

    Raises `CharacteriseError` that names the file when it is of something else.
    """
    try:
        lines = results.read_text().splitlines()
        header = json.loads(lines[0])
        design = Design(
            np.array(header["signs"]), tuple(header["names"]), bool(header["is_folded"])
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CharacteriseError(f"{results}: {error!r}: `screen` writes such a file") from None
    return header, design, _parse(lines[1:])


def _resume(results: Path, header: dict[str, Any]) -> list[Run]:
    text = json.dumps(header)
    if not results.exists():
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text(text + "\n")
        return []
    lines = results.read_text().splitlines()
    if not lines or json.loads(lines[0]) != json.loads(text):
        raise CharacteriseError(
            f"{results} is of another experiment, target or seed: choose another --out, or "
            "delete it"
        )
    runs = _parse(lines[1:])
    rest = [json.dumps(asdict(one)) for one in runs]
    write_atomically(results, ("\n".join([text, *rest]) + "\n").encode())
    return runs


def _parse(lines: list[str]) -> list[Run]:
    runs = []
    for line in lines:
        try:
            one = json.loads(line)
            runs.append(Run(**{**one, "problems": tuple(one["problems"])}))
        except (ValueError, TypeError, KeyError):
            # Cut off when the command was killed; it is measured again.
            continue
    return runs


def metrics_of_runs(results: Path) -> dict[str, str]:
    """Return the units of the metrics that runs have."""
    header, _, _ = read_runs(results)
    tool = _TOOLS[Tool(header["experiment"]["tool"])]
    return dict(tool.METRICS)
