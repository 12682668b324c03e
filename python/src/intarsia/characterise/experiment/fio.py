"""Runs of fio: the command of a row of a design, and what its report says."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment.design import Design
from intarsia.characterise.experiment.factors import Experiment
from intarsia.characterise.experiment.target import Target

METRICS = {
    "throughput": "MB/s",
    "latency": "ms",
    "read_throughput": "MB/s",
    "write_throughput": "MB/s",
    "read_latency": "ms",
    "write_latency": "ms",
}
USUAL = ("throughput", "latency")
_FEWEST = 50
_BUSY = 95.0
_ONLY_READ = {"read", "randread"}

Measured = tuple[dict[str, float], tuple[str, ...]]
"""Metrics by name, and why they may not be those of the store."""


def require(experiment: Experiment, design: Design, target: Target) -> None:
    """Raise `CharacteriseError` when fio is missing, or would write where it may not."""
    if shutil.which("fio") is None:
        raise CharacteriseError("fio is not in the PATH: install it (Debian: apt install fio)")
    if target.may_write:
        return
    for row in range(len(design.signs)):
        given = experiment.options_of(design.run(row))
        kind = given.get("rw", given.get("readwrite", "read"))
        if kind not in _ONLY_READ:
            raise CharacteriseError(
                f"{target.path} is a device, and rw={kind} destroys what is on it: give "
                "--overwrite-device to let that happen, or a factor file that only reads"
            )


def run(experiment: Experiment, design: Design, row: int, target: Target) -> Measured:
    """Run a row of the design.

    Raises `CharacteriseError` with fio's last line when it fails.
    """
    report = call(
        [
            f"--size={experiment.size_bytes}",
            f"--runtime={milliseconds(experiment.seconds)}",
            f"--ramp_time={milliseconds(experiment.warmup)}",
            "--time_based",
        ],
        [
            [f"--{name}={text}" for name, text in experiment.options_of(design.run(one)).items()]
            for one in experiment.job_rows(design, row)
        ],
        target,
        limit_s=60 + 10 * (experiment.seconds + experiment.warmup),
    )
    return metrics(report["jobs"][0]), _problems(report, experiment)


def call(
    common: list[str], jobs: list[list[str]], target: Target, limit_s: float
) -> dict[str, Any]:
    """Run fio with jobs at the same time, reported as one; return its report."""
    command = ["fio", "--name=global", *common, "--group_reporting", "--output-format=json"]
    for number, options in enumerate(jobs):
        command += [f"--name=intarsia-{number}", *options, *target.options]
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
    report: dict[str, Any] = json.loads(done.stdout[start:])
    return report


def milliseconds(seconds: float) -> str:
    """Return a time as fio takes it: it reads 0.5s as no time at all, and then goes on to the end.

    >>> milliseconds(0.5)
    '500ms'
    """
    return f"{round(1000 * seconds)}ms"


def metrics(job: dict[str, Any]) -> dict[str, float]:
    """Return what a job of a report says, by the names of `METRICS`.

    A latency of nothing is not a number.
    """
    sides = {name: job[name] for name in ("read", "write")}
    count = sum(side["total_ios"] for side in sides.values())
    waited = sum(side["total_ios"] * side["lat_ns"]["mean"] for side in sides.values())
    found = {
        "throughput": sum(side["bw_bytes"] for side in sides.values()) / 1e6,
        "latency": waited / count / 1e6 if count else float("nan"),
    }
    for name, side in sides.items():
        found[f"{name}_throughput"] = side["bw_bytes"] / 1e6
        mean_ms = side["lat_ns"]["mean"] / 1e6
        found[f"{name}_latency"] = mean_ms if side["total_ios"] else float("nan")
    return found


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
