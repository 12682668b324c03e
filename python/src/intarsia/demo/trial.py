"""Trials: the same workflow run by turns on the native file system and inside the store."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from intarsia.demo.compare import Digests, differences, digests
from intarsia.demo.workflow import StageTime, Workflow, run_stages

NATIVE = "native"
STORE = "store"


class ResultsDifferError(RuntimeError):
    """Two runs that must agree bit by bit do not."""


@dataclass(frozen=True)
class Trial:
    """One run of the workflow in one place."""

    place: str
    directory: Path
    seconds: float
    cpu_seconds: float
    stages: list[StageTime]
    results: Digests = field(repr=False)


@dataclass(frozen=True)
class Tree:
    """How much a run left in its directory."""

    files: int
    logical_bytes: int

    @classmethod
    def of(cls, directory: Path) -> Tree:
        """Count the files under `directory`."""
        sizes = [path.stat().st_size for path in directory.rglob("*") if path.is_file()]
        return cls(len(sizes), sum(sizes))


def schedule(places: Sequence[str], rounds: int) -> list[str]:
    """Say in which place each run takes place: the order turns round from round to round.

    A place that always ran first would always meet the colder caches.
    """
    order: list[str] = []
    for round_number in range(rounds):
        order += places if round_number % 2 == 0 else reversed(places)
    return order


def run_trial(
    workflow: Workflow,
    inputs: Path,
    place: str,
    directories: Sequence[Path],
    workers: int,
    on_task: Callable[[str], None],
) -> Trial:
    """Run `workflow` once in a new directory and digest what it made.

    `directories` is that directory as each host sees it. The first makes it, the last digests.
    """
    directory = directories[0]
    directory.mkdir(parents=True)
    # What earlier runs left to be written back must not slow this one down.
    os.sync()
    cpu_before = _children_cpu_seconds()
    started = time.perf_counter()
    stages = run_stages(workflow.stages(inputs), directories, workers, on_task)
    seconds = time.perf_counter() - started
    cpu_seconds = _children_cpu_seconds() - cpu_before
    results = digests(directories[-1], workflow.compared)
    return Trial(place, directory, seconds, cpu_seconds, stages, results)


def check_equal(first: Trial, other: Trial) -> None:
    """Fail loudly unless both trials made the same files with the same bytes."""
    if not first.results:
        raise ResultsDifferError(f"the run in {first.directory} left nothing to compare")
    found = differences(first.results, other.results)
    if found:
        head = f"{len(found)} results in {other.directory} differ from {first.directory}:"
        raise ResultsDifferError("\n  ".join([head, *found[:20]]))


def median_seconds(trials: Sequence[Trial], place: str) -> float | None:
    """Return the median time of the trials in `place`."""
    seconds = [trial.seconds for trial in trials if trial.place == place]
    return statistics.median(seconds) if seconds else None


def median_stages(trials: Sequence[Trial], place: str) -> list[StageTime]:
    """Return the stages with the median time of each over the trials in `place`."""
    chosen = [trial.stages for trial in trials if trial.place == place]
    return [
        StageTime(same[0].name, same[0].tasks, statistics.median(stage.seconds for stage in same))
        for same in zip(*chosen, strict=True)
    ]


def clear(directory: Path) -> None:
    """Remove the directory of a trial."""
    shutil.rmtree(directory)


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
