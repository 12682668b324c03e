"""What an engine is given: how the run goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from intarsia.run.ahead import Budget
from intarsia.run.graph import Task as TaskOf
from intarsia.run.order import Order
from intarsia.run.tags import Tags
from intarsia.schedule import Policy, Task
from intarsia.schedule.host import LINK_BYTES_PER_S


@dataclass(frozen=True)
class Settings:
    """How a run goes: `retries` and `timeout_s` (seconds) are for tasks that do not say.

    `ahead`: what may be copied to where the next task will run, and how fast;
    `link_bytes_per_s`: what a host's link carries; `in_order`: tasks begin in the order in which
    they became ready, wherever their input lies; `by_affinity`: where what is read beside their
    outputs lies counts too. `hints` are by file; `tags` derives more while the run goes on.
    `store` is the one of `directory`.
    """

    directory: Path
    run_dir: Path
    policy: Policy
    retries: int = 0
    timeout_s: float | None = None
    keeps_going: bool = False
    remakes: bool = False
    ahead: Budget = field(default_factory=Budget)
    link_bytes_per_s: float = LINK_BYTES_PER_S
    in_order: bool = False
    by_affinity: bool = False
    hints: Mapping[str, Mapping[str, str]] | None = None
    tags: Tags | None = None
    store: str | None = None

    def paths(self, files: Iterable[str]) -> list[str]:
        """Return where files lie."""
        return [str(self.directory / file) for file in files]

    def order(self, task: TaskOf, number: int, log: str, gone_hosts: Iterable[str]) -> Order:
        """Return what a worker is told of an attempt."""
        if self.tags is not None:
            self.tags.before(task.outputs)
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
            task.stdin is not None,
            self.store,
        )


@dataclass(slots=True)
class Sent:
    """An attempt that is under way; `handed_s` is when the crew had it."""

    task: str
    number: int
    host: str
    ready_s: float
    sent_s: float
    placed: Task
    log: str
    handed_s: float = 0.0
