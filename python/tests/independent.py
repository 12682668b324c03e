"""Jobs on a machine that fails, as a model in SimPy that shares nothing with the simulator.

It is written the way SimPy wants it: a process for each job, one for the failures, one for each
transfer in the background. Nothing is computed ahead: every interval of work and every checkpoint
is lived through.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy
from scipy import stats

Process = Generator[simpy.Event, Any, Any]
HOUR = 3600.0

# Which kinds of damage the storage survives.
SURVIVES = {"local": {"process", "reboot"}, "lower": {"process", "reboot", "loss"}}


@dataclass(frozen=True)
class Level:
    """Where checkpoints go; times in seconds."""

    kind: str
    write: float
    restore: float = 0.0
    every: int = 1
    flush: float = 0.0
    slowdown: float = 0.0
    shared: bool = False
    """All such levels of all jobs share a bandwidth: what is flushed, or else written, and read."""


@dataclass(frozen=True)
class Case:
    """Endless jobs on a node each, that fails every `mtbf`; times in seconds."""

    levels: Sequence[Level]
    interval: float
    mtbf: float
    overlap: str = "wait"
    process: float = 0.0
    reboot_share: float = 0.0
    repair: float = 0.0
    reboot: float = 0.0
    spares: int = 0
    horizon: float = 150 * 86_400.0
    verification: float = 0.0
    """After each interval of work; finds every silent error before it."""
    error_mtbe: float = math.inf
    """Work between two silent errors."""
    jobs: int = 1


class _SharedBandwidth:
    """Each of n transfers gets an n-th; the others hear when one begins or ends."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.left: dict[int, float] = {}
        self.number = 0
        self.updated = 0.0
        self.changed = env.event()

    def move(self, alone: float) -> Process:
        """Transfer for so many seconds of the whole bandwidth."""
        self.number += 1
        me = self.number
        self.pass_time()
        self.left[me] = alone
        self.tell()
        try:
            while self.left[me] > 1e-6:
                yield self.env.timeout(self.left[me] * len(self.left)) | self.changed
                self.pass_time()
        finally:
            self.pass_time()
            del self.left[me]
            self.tell()

    def pass_time(self) -> None:
        for transfer in self.left:
            self.left[transfer] -= (self.env.now - self.updated) / len(self.left)
        self.updated = self.env.now

    def tell(self) -> None:
        self.changed.succeed()
        self.changed = self.env.event()


@dataclass
class _Run:
    case: Case
    random: random.Random
    env: simpy.Environment
    shared: _SharedBandwidth
    kept: float = 0.0
    """Work up to the last checkpoint that was written and not lost."""
    settled: float = 0.0
    """When that checkpoint was written, or the last failure."""
    newest: list[int] = field(default_factory=list)
    job: simpy.Process | None = None

    def __post_init__(self) -> None:
        self.newest = [0 for _ in self.case.levels]
        self.spares = self.case.spares
        self.running: list[simpy.Process] = []
        self.changed = self.env.event()
        self.slowdown = 0.0

    def start(self) -> None:
        self.job = self.env.process(self.life())
        self.env.process(self.failures())

    def move(self, level: Level, seconds: float, is_shared: bool) -> Process:
        if level.shared and is_shared:
            yield from self.shared.move(seconds)
        else:
            yield self.env.timeout(seconds)

    # The machine.

    def failures(self) -> Process:
        case = self.case
        while True:
            yield self.env.timeout(self.random.expovariate(1 / case.mtbf))
            point = self.random.random()
            repair = self.random.expovariate(1 / case.repair) if case.repair else 0.0
            damage = "loss"
            if point < case.process:
                damage, repair = "process", 0.0
            elif point < case.process + case.reboot_share:
                damage = "reboot"
            if damage != "process" and repair and self.spares:
                # The spare is another node: what the failed one holds stays there.
                self.spares -= 1
                self.env.process(self.return_spare(repair))
                damage, repair = "loss", 0.0
            assert self.job is not None
            self.job.interrupt((damage, self.env.now + repair))

    def return_spare(self, repair: float) -> Process:
        yield self.env.timeout(repair)
        self.spares += 1

    # The job.

    def life(self) -> Process:
        worst, repaired, source = "", 0.0, None
        while True:
            try:
                if worst:
                    yield self.env.timeout(max(0.0, repaired - self.env.now))
                    if worst != "process":
                        yield self.env.timeout(self.case.reboot)
                    if source is not None:
                        level = self.case.levels[source]
                        yield from self.move(level, level.restore, True)
                    worst = ""
                while (yield from self.interval()):
                    pass
                # A verification has found a silent error: the last checkpoint is read again.
                self.settled = self.env.now
                self.stop_transfers()
                source = self.go_back("process")
                worst = "process"
            except simpy.Interrupt as interrupt:
                cause: Any = interrupt.cause
                damage, until = cause
                order = ["", "process", "reboot", "loss"]
                worst = max(worst, damage, key=order.index)
                repaired = max(repaired, until)
                self.settled = self.env.now
                self.stop_transfers()
                source = self.go_back(worst)

    def go_back(self, damage: str) -> int | None:
        levels = self.case.levels
        left = [i for i, level in enumerate(levels) if damage in SURVIVES[level.kind]]
        best = max((self.newest[i] for i in left), default=0)
        source = next((i for i in left if self.newest[i] == best), None) if best else None
        for i in range(len(levels)):
            refilled = source is not None and i <= source
            self.newest[i] = best if refilled else min(self.newest[i], best)
        self.kept = best * self.case.interval
        self.done = best
        return source

    done = 0

    def interval(self) -> Process:
        """Work, verify and write a checkpoint; false if an error was found."""
        # Nothing happens at a rate of zero.
        rate = 1 / self.case.error_mtbe
        error = self.random.expovariate(rate) if rate else math.inf
        yield from self.work(self.case.interval)
        yield from self.work(self.case.verification)
        if error < self.case.interval:
            return False
        number = self.done + 1
        target = max(i for i, level in enumerate(self.case.levels) if number % level.every == 0)
        level = self.case.levels[target]
        yield from self.move(level, level.write, not level.flush)
        self.done = number
        self.kept = number * self.case.interval
        self.settled = self.env.now
        flushed = []
        for i, level in enumerate(self.case.levels[: target + 1]):
            if level.flush:
                flushed.append(i)
            else:
                self.newest[i] = number
        if flushed:
            yield from self.transfer(number, flushed)
        return True

    def work(self, left: float) -> Process:
        """Work `left` seconds at full speed, slower beside a transfer."""
        while left > 1e-6:
            speed = 1 - self.slowdown
            begun = self.env.now
            yield self.env.timeout(left / speed) | self.changed
            left -= (self.env.now - begun) * speed

    # Transfers.

    def transfer(self, number: int, flushed: list[int]) -> Process:
        earlier = [process for process in self.running if process.is_alive]
        if earlier and self.case.overlap == "skip":
            return
        if earlier and self.case.overlap == "wait":
            yield earlier[-1]
            earlier = []
        after = earlier[-1] if earlier else None
        self.running = [*earlier, self.env.process(self.copy(number, flushed, after))]

    def copy(self, number: int, flushed: list[int], after: simpy.Process | None) -> Process:
        try:
            if after is not None:
                yield after
            for i in flushed:
                level = self.case.levels[i]
                self.set_slowdown(level.slowdown)
                yield from self.move(level, level.flush, True)
                self.newest[i] = number
                self.set_slowdown(0.0)
        except simpy.Interrupt:
            self.set_slowdown(0.0)

    def stop_transfers(self) -> None:
        for process in self.running:
            if process.is_alive:
                process.interrupt()
        self.running = []

    def set_slowdown(self, slowdown: float) -> None:
        self.slowdown = slowdown
        self.changed.succeed()
        self.changed = self.env.event()


@dataclass(frozen=True)
class Estimate:
    """A mean over replications with half of its 95 % interval, in percent."""

    mean: float
    half_width: float


def efficiency(case: Case, replications: int = 10, seed: int = 7) -> Estimate:
    """Live through `case` several times."""
    return estimate([100 * _live(case, seed * 1000 + index) for index in range(replications)])


def _live(case: Case, seed: int) -> float:
    env = simpy.Environment()
    shared = _SharedBandwidth(env)
    numbers = random.Random(seed)
    jobs = [_Run(case, numbers, env, shared) for _ in range(case.jobs)]
    for job in jobs:
        job.start()
    env.run(until=case.horizon)
    return sum(job.kept for job in jobs) / sum(job.settled for job in jobs)


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean and interval of independent values."""
    n = len(values)
    mean = sum(values) / n
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    return Estimate(mean, float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n))


def scenario(case: Case, replications: int = 10) -> dict[str, Any]:
    """Return the same case as the simulator reads it."""
    seconds: Callable[[float], str] = lambda value: f"{value:.10g} s"  # noqa: E731
    levels = []
    for index, level in enumerate(case.levels):
        table: dict[str, Any] = {
            "name": f"level-{index}",
            "kind": level.kind,
            "every": level.every,
            "write": seconds(level.write),
            "restore": seconds(level.restore),
        }
        if level.flush:
            table["flush"] = {
                "time": seconds(level.flush),
                "slowdown": level.slowdown,
                "overlap": case.overlap,
            }
        if level.shared:
            table["shared_storage"] = "file system"
        levels.append(table)
    failures: dict[str, Any] = {
        "lifetime": {"model": "exponential", "mean": seconds(case.mtbf)},
        "shares": {"process": case.process, "reboot": case.reboot_share},
    }
    if case.repair:
        failures["repair"] = {"model": "exponential", "mean": seconds(case.repair)}
    made: dict[str, Any] = {
        "machine": {"nodes": case.jobs, "reboot": seconds(case.reboot), "spares": case.spares},
        "failures": failures,
        "level": levels,
        "checkpoint": {"interval": seconds(case.interval)},
        "workload": {"size": 1, "walltime": "endless"},
        "run": {"horizon": seconds(case.horizon), "replications": replications},
    }
    if case.error_mtbe < math.inf:
        made["silent"] = {
            "node_mtbe": seconds(case.error_mtbe),
            "verification": seconds(case.verification),
        }
    return made
