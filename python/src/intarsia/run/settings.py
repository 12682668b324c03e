"""What an engine is given: how the run goes, and who shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from intarsia.run.attempts import History
from intarsia.run.graph import Task as TaskOf
from intarsia.run.order import Order
from intarsia.run.progression import Progression
from intarsia.schedule import Policy, Task
from intarsia.schedule.host import LINK_BYTES_PER_S


class View(Protocol):
    """What a person sees of a run."""

    def say(self, text: str) -> None:
        """Print one line."""

    def update(self, progression: Progression, history: History, running: Iterable[str]) -> None:
        """Show how far the run is."""


@dataclass(frozen=True)
class Settings:
    """How a run goes: `retries` and `timeout_s` (seconds) are for tasks that do not say.

    `ahead_bytes`: how much may be copied in all to where the next task will run;
    `link_bytes_per_s`: what a host's link carries.
    """

    directory: Path
    run_dir: Path
    policy: Policy
    retries: int = 0
    timeout_s: float | None = None
    keeps_going: bool = False
    remakes: bool = False
    ahead_bytes: int = 0
    link_bytes_per_s: float = LINK_BYTES_PER_S
    hints: Mapping[str, Mapping[str, str]] | None = None

    def paths(self, files: Iterable[str]) -> list[str]:
        """Return where files lie."""
        return [str(self.directory / file) for file in files]

    def order(self, task: TaskOf, number: int, log: str, gone_hosts: Iterable[str]) -> Order:
        """Return what a worker is told of an attempt."""
        hints = self.hints or {}
        return Order(
            task.name,
            number,
            task.command,
            str(self.directory),
            tuple(self.paths(task.inputs)),
            tuple(self.paths(task.outputs)),
            {str(self.directory / file): hints[file] for file in task.outputs if file in hints},
            log,
            task.stdin,
            self.timeout_s if task.timeout_s is None else task.timeout_s,
            self.remakes,
            tuple(sorted(gone_hosts)),
        )


@dataclass(slots=True)
class Sent:
    """An attempt that is under way."""

    task: str
    number: int
    host: str
    ready_s: float
    sent_s: float
    placed: Task
    log: str
