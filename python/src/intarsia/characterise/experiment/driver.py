"""Runs of fio: in random order, resumable, warmed up, and looked at before they count."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment.design import Design
from intarsia.characterise.experiment.factors import Experiment
from intarsia.characterise.load import Floats
from intarsia.simulate.files import write_atomically

METRICS = {"throughput": "MB/s", "latency": "ms"}
_FEWEST = 50
_BUSY = 95.0


@dataclass(frozen=True)
class Run:
    """One run of a design."""

    row: int
    repetition: int
    metrics: dict[str, float]
    problems: tuple[str, ...]
    """Why the run may not measure the store; it counts all the same, and the report says so."""


def run_all(
    experiment: Experiment,
    design: Design,
    directory: Path,
    results: Path,
    *,
    seed: int = 1,
    say: Callable[[Run], None] = lambda _: None,
) -> list[Run]:
    """Do all runs that `results` does not have yet, and return all.

    Each repetition has its own random order, so that what changes with time meets all levels alike.
    Raises `CharacteriseError` when fio is missing or fails, or the directory goes away; what was
    measured until then stays.
    """
    if shutil.which("fio") is None:
        raise CharacteriseError("fio is not in the PATH: install it (Debian: apt install fio)")
    require_directory(directory)
    header = {"experiment": asdict(experiment), "signs": design.signs.tolist(), "seed": seed}
    done = _read(results, header)
    have = {(one.row, one.repetition) for one in done}
    for repetition in range(experiment.repetitions):
        order = np.random.default_rng([seed, repetition]).permutation(len(design.signs))
        for row in (int(one) for one in order):
            if (row, repetition) in have:
                continue
            require_directory(directory)
            made = _run(experiment, design, row, repetition, directory)
            with open(results, "a") as file:
                file.write(json.dumps(asdict(made)) + "\n")
            done.append(made)
            say(made)
    return done


def require_directory(directory: Path) -> None:
    """Raise `CharacteriseError` unless files can be made there."""
    if directory.is_block_device():
        raise CharacteriseError(
            f"{directory} is a device, and runs write: give a directory of a file system on it"
        )
    if not directory.is_dir():
        raise CharacteriseError(
            f"{directory}: no directory; has the store gone away? The same command goes on later"
        )


def table(runs: list[Run], design: Design, repetitions: int, metric: str) -> Floats:
    """Return a metric with a row for each run of the design and a column for each repetition."""
    found = np.full((len(design.signs), repetitions), np.nan)
    for one in runs:
        found[one.row, one.repetition] = one.metrics[metric]
    return found


def _read(results: Path, header: dict[str, Any]) -> list[Run]:
    text = json.dumps(header)
    if not results.exists():
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text(text + "\n")
        return []
    lines = results.read_text().splitlines()
    if not lines or json.loads(lines[0]) != json.loads(text):
        raise CharacteriseError(
            f"{results} is of another experiment or seed: choose another --out, or delete it"
        )
    runs = []
    for line in lines[1:]:
        try:
            one = json.loads(line)
            runs.append(Run(**{**one, "problems": tuple(one["problems"])}))
        except (ValueError, TypeError, KeyError):
            # Cut off when the command was killed; it is measured again.
            continue
    rest = [json.dumps(asdict(one)) for one in runs]
    write_atomically(results, ("\n".join([text, *rest]) + "\n").encode())
    return runs


def _run(experiment: Experiment, design: Design, row: int, repetition: int, directory: Path) -> Run:
    command = [
        "fio",
        "--name=intarsia-screening",
        f"--directory={directory}",
        f"--size={experiment.size_bytes}",
        f"--runtime={experiment.seconds:g}s",
        f"--ramp_time={experiment.warmup:g}s",
        "--time_based",
        "--group_reporting",
        "--output-format=json",
        "--unlink=1",
        *experiment.arguments(design.run(row)),
    ]
    limit_s = 60 + 10 * (experiment.seconds + experiment.warmup)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise CharacteriseError(
            f"fio did not end within {limit_s:.0f} s: {' '.join(command)}"
        ) from None
    start = done.stdout.find("{")
    if done.returncode != 0 or start < 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no word"]
        raise CharacteriseError(f"fio failed ({last[0]}) with: {' '.join(command)}")
    job = json.loads(done.stdout[start:])
    return Run(row, repetition, _metrics(job["jobs"][0]), _problems(job, experiment))


def _metrics(job: dict[str, Any]) -> dict[str, float]:
    sides = [job["read"], job["write"]]
    count = sum(side["total_ios"] for side in sides)
    waited = sum(side["total_ios"] * side["lat_ns"]["mean"] for side in sides)
    return {
        "throughput": sum(side["bw_bytes"] for side in sides) / 1e6,
        "latency": waited / count / 1e6 if count else float("nan"),
    }


def _problems(report: dict[str, Any], experiment: Experiment) -> tuple[str, ...]:
    job = report["jobs"][0]
    count = job["read"]["total_ios"] + job["write"]["total_ios"]
    found = []
    if count < _FEWEST:
        found.append(f"only {count} requests")
    if job["job_runtime"] < 500 * experiment.seconds:
        found.append("it ended early")
    if job["usr_cpu"] + job["sys_cpu"] > _BUSY:
        found.append("the processor was busy, so the store may not have been")
    for disk in report.get("disk_util", []):
        if disk.get("util", 100) < 10:
            found.append(f"{disk['name']} was busy {disk['util']:.0f} % only")
    return tuple(found)
