"""What an engine is given: how the run goes, and who shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from intarsia.run.attempts import History
from intarsia.run.progression import Progression
from intarsia.schedule import Policy, Task


class View(Protocol):
    """What a person sees of a run."""

    def say(self, text: str) -> None:
        """Print one line."""

    def update(self, progression: Progression, history: History, running: Iterable[str]) -> None:
        """Show how far the run is."""


@dataclass(frozen=True)
class Settings:
    """How a run goes: `retries` and `timeout_s` (seconds) are for tasks that do not say."""

    directory: Path
    run_dir: Path
    policy: Policy
    retries: int = 0
    timeout_s: float | None = None
    keeps_going: bool = False
    remakes: bool = False
    hints: Mapping[str, Mapping[str, str]] | None = None


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
