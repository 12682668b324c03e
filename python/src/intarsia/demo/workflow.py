"""A workflow as a list of stages, and the clockwork that runs them in a directory."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_COMMAND_TIMEOUT_S = 900

Task = Callable[[Path], None]
"""One unit of work; it is given the directory of the run."""


class WorkflowError(RuntimeError):
    """A task failed or a program is missing; the text says which and what to do."""


class Workflow(Protocol):
    """What the demonstration needs to know of a workflow."""

    @property
    def name(self) -> str:
        """A word for files and messages."""

    @property
    def programs(self) -> Mapping[str, str]:
        """The programs it calls, each with its Debian package."""

    @property
    def compared(self) -> Sequence[str]:
        """Patterns of the names of files that must agree bit by bit."""

    def prepare(self, inputs: Path) -> None:
        """Make the input files."""

    def stages(self, inputs: Path) -> list[Stage]:
        """The stages in order; the first copies the inputs in."""


@dataclass(frozen=True)
class Command:
    """One call of an outside program.

    `refused` is a pattern that means failure although the program said success by its exit code.
    """

    argv: tuple[str, ...]
    refused: str | None = None

    def __call__(self, directory: Path) -> None:
        """Run the program in `directory`."""
        try:
            done = subprocess.run(
                self.argv,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_COMMAND_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise WorkflowError(f"{self} took longer than {_COMMAND_TIMEOUT_S} s") from error
        refusal = self.refused is not None and re.search(self.refused, done.stdout)
        if done.returncode != 0 or refusal:
            said = done.stdout.strip()[-2000:]
            raise WorkflowError(f"{self} failed ({done.returncode}) in {directory}:\n{said}")

    def __str__(self) -> str:
        return f"`{' '.join(self.argv)}`"


@dataclass(frozen=True)
class Stage:
    """Tasks that may run at the same time, after all tasks of the stage before."""

    name: str
    tasks: Sequence[Task]


@dataclass(frozen=True)
class StageTime:
    """How long one stage took."""

    name: str
    tasks: int
    seconds: float


def missing_programs(programs: Mapping[str, str]) -> list[str]:
    """Name the programs that are not installed, each with its Debian package."""
    missing = (name for name in programs if shutil.which(name) is None)
    return [f"{name} (Debian package: {programs[name]})" for name in missing]


def run_stages(
    stages: Sequence[Stage],
    directories: Sequence[Path],
    workers: int,
    on_task: Callable[[str], None],
) -> list[StageTime]:
    """Run all stages; `on_task` is told the stage's name after each task.

    `directories` is the directory of the run as each host sees it; tasks are dealt to them in turn.
    """
    times = []
    turns = itertools.cycle(directories)
    with ThreadPoolExecutor(workers) as pool:
        for stage in stages:
            started = time.perf_counter()
            waiting = [pool.submit(task, next(turns)) for task in stage.tasks]
            try:
                for done in as_completed(waiting):
                    done.result()
                    on_task(stage.name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            times.append(StageTime(stage.name, len(stage.tasks), time.perf_counter() - started))
    return times


def copy_in(source: Path, name: str) -> Task:
    """Return a task that copies file `source` to `name` in the directory of the run."""

    def copy(directory: Path) -> None:
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    return copy
