"""What is kept of every attempt at a task, for the records and pages of a run."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from intarsia.learn.lessons import Lesson
from intarsia.learn.observed import Role
from intarsia.refine.engine import EngineCost, engine_cost
from intarsia.run.effort import Effort
from intarsia.run.graph import Graph
from intarsia.run.order import Outcome, Result


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that has ended; times in seconds since 1970.

    `local_bytes` of the `input_bytes` that lie on disks were on the host that ran it; the rest
    came from other hosts, unless these keep it from an earlier read. `ready_s` is when it could
    have begun, `away_s` how long it was out of the engine's hands, what the task did included.
    """

    task: str
    number: int
    host: str
    ready_s: float
    sent_s: float
    input_bytes: int
    local_bytes: int
    outcome: Outcome
    log: str
    remakes: bool = False
    away_s: float = 0.0


@dataclass
class History:
    """All that happened in a run."""

    graph: Graph
    directory: Path
    run_dir: Path
    schedule: str
    began_s: float = 0.0
    ended_s: float = 0.0
    reused: tuple[str, ...] = ()
    attempts: list[Attempt] = field(default_factory=list)
    machines: dict[str, dict[str, object]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    remade: list[str] = field(default_factory=list)
    #: Hosts that held a file when a task that reads it was ready.
    lay_on: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lessons: Mapping[Role, Lesson] = field(default_factory=dict)
    #: What is told of copies against recomputation, by rule.
    protection: list[dict[str, Any]] = field(default_factory=list)
    fetched_bytes: int = 0
    effort: Effort = field(default_factory=Effort)
    #: Temporary files that went when their last reader was done.
    removed: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)
    stopped_by: str = ""
    #: Whether the store went away, and the run with it.
    lost_store: bool = False

    @property
    def makespan_s(self) -> float:
        """Seconds from the first task's readiness to the end."""
        return self.ended_s - self.began_s

    @property
    def done(self) -> list[Attempt]:
        """The attempts that ended well; of a task that was made again, each."""
        return [one for one in self.attempts if one.outcome.result is Result.DONE]

    @property
    def id(self) -> str:
        """What this run is known by."""
        return hashlib.sha256(f"{self.run_dir}:{self.began_s}".encode()).hexdigest()[:16]

    @property
    def engine_cost(self) -> EngineCost | None:
        """What the engine took for each attempt; None where none ended well."""
        done = [one for one in self.done if one.outcome.command_s > 0]
        share = len(done) / max(1, len(self.attempts))
        return engine_cost(
            self.effort.worked_s * share,
            self.effort.beside_s * share,
            [one.away_s - one.outcome.command_s for one in done],
            processor_s=self.effort.processor_s * share,
            alone_s=[one.away_s - one.outcome.command_s for one in alone_among(done)],
        )

    @property
    def input_bytes(self) -> int:
        """Bytes on disks that finished tasks have read."""
        return sum(one.input_bytes for one in self.done)

    @property
    def local_bytes(self) -> int:
        """Those of them that lay on the host that read them."""
        return sum(one.local_bytes for one in self.done)

    @property
    def is_well(self) -> bool:
        """Whether every task is done."""
        return not (self.failed or self.blocked or self.not_run or self.stopped_by)

    def workers_lost(self) -> int:
        """How many attempts were lost with their workers."""
        results = Counter(one.outcome.result for one in self.attempts)
        return results[Result.WORKER_LOST]


def alone_among(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts while which no other was out of the engine's hands."""
    in_order = sorted(attempts, key=lambda one: one.sent_s)
    alone, busy_until_s = [], -math.inf
    for one, following in zip_longest(in_order, in_order[1:]):
        back_s = one.sent_s + one.away_s
        if busy_until_s <= one.sent_s and (following is None or back_s <= following.sent_s):
            alone.append(one)
        busy_until_s = max(busy_until_s, back_s)
    return alone
