"""A prediction held against what happened, in all, by stage and by kind of work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

#: Less than this part of the time of its tasks says nothing of the kind of work.
LEAST_SHARE = 0.05
#: Less than this for a task is noise of the system.
LEAST_S = 0.005
HEADS = ("stage", "tasks", "predicted s", "actual s", "error")


@dataclass(frozen=True, slots=True)
class Ran:
    """A task that ran: moments are seconds since any moment, `compute_s` is what it computed.

    `work_s` is what it did itself of the time between; None: all of it. The rest is the engine's.
    """

    stage: str
    began_s: float
    ended_s: float
    compute_s: float
    work_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """What was predicted and what it took, in seconds. `tasks`: those predicted and those run."""

    name: str
    predicted_s: float
    actual_s: float
    tasks: tuple[int, int] = (0, 0)

    @property
    def ratio(self) -> float | None:
        """Actual over predicted; None where nothing was predicted."""
        return self.actual_s / self.predicted_s if self.predicted_s > 0 else None

    @property
    def error(self) -> float | None:
        """How far the prediction is off, |1 - predicted / actual|; None where nothing happened."""
        return abs(1 - self.predicted_s / self.actual_s) if self.actual_s > 0 else None


@dataclass(frozen=True)
class Comparison:
    """A run: its makespan, its stages, and what it took by kind of work.

    `work` has `compute` and `io` (reads, writes and metadata), per task of the stages that both
    have; what is too small to tell is left out. `unmatched` are stages that only one of both has.
    `interval` is where 90 % of makespans were foretold to lie, if that was known.
    """

    makespan: Pair
    stages: tuple[Pair, ...]
    work: Mapping[str, Pair]
    unmatched: tuple[str, ...]
    interval: tuple[float, float] | None = None

    def rows(self) -> list[tuple[str, ...]]:
        """Return lines of a table with `HEADS`."""
        return [_row(one) for one in (self.makespan, *self.stages, *self.work.values())]

    def verdict(self) -> str:
        """Say whether the makespan lies where it was foretold to lie; empty if that is unknown."""
        if self.interval is None:
            return ""
        low_s, high_s = self.interval
        lies = "lies" if low_s <= self.makespan.actual_s <= high_s else "does not lie"
        return f"the makespan {lies} in its 90 % interval, {low_s:.3f} to {high_s:.3f} s"

    def native(self) -> dict[str, Any]:
        """Return it for a file."""
        return {
            "makespan": asdict(self.makespan),
            "stages": [asdict(one) for one in self.stages],
            "work": {name: asdict(one) for name, one in self.work.items()},
            "unmatched": list(self.unmatched),
            "interval": list(self.interval) if self.interval else None,
        }


def _row(one: Pair) -> tuple[str, ...]:
    tasks = str(one.tasks[0]) if one.tasks[0] == one.tasks[1] else f"{one.tasks[0]}/{one.tasks[1]}"
    off = "" if one.error is None else f"{100 * one.error:.0f} %"
    return (
        one.name,
        tasks if any(one.tasks) else "",
        *map(_short, (one.predicted_s, one.actual_s)),
        off,
    )


def _short(seconds: float) -> str:
    return f"{seconds:.3f}"


def compare(prediction: Mapping[str, Any], ran: Iterable[Ran]) -> Comparison:
    """Hold the JSON of `intarsia predict` against the tasks that ran."""
    by_stage: dict[str, list[Ran]] = defaultdict(list)
    for one in ran:
        by_stage[one.stage].append(one)
    every = [one for tasks in by_stage.values() for one in tasks]
    began_s = min((one.began_s for one in every), default=0.0)
    ended_s = max((one.ended_s for one in every), default=0.0)
    foretold = {stage["name"]: stage for stage in prediction["first_run"]["stages"]}
    both = [name for name in foretold if name in by_stage]
    interval = prediction["makespan_seconds"].get("interval")
    return Comparison(
        Pair("makespan", prediction["makespan_seconds"]["mean"], ended_s - began_s),
        tuple(_stage(foretold[name], by_stage[name]) for name in both),
        _work([(foretold[name], by_stage[name]) for name in both]),
        tuple(sorted(set(foretold) ^ set(by_stage))),
        (interval["low"], interval["high"]) if interval else None,
    )


def _stage(foretold: Mapping[str, Any], ran: list[Ran]) -> Pair:
    began_s, ended_s = min(one.began_s for one in ran), max(one.ended_s for one in ran)
    predicted_s = foretold["end_seconds"] - foretold["start_seconds"]
    return Pair(foretold["name"], predicted_s, ended_s - began_s, (foretold["tasks"], len(ran)))


def _work(stages: list[tuple[Mapping[str, Any], list[Ran]]]) -> dict[str, Pair]:
    """What a task of each stage computes and moves, summed over the tasks that ran."""
    predicted: dict[str, float] = defaultdict(float)
    actual: dict[str, float] = defaultdict(float)
    tasks = 0
    for foretold, ran in stages:
        share = len(ran) / max(1, foretold["tasks"])
        tasks += len(ran)
        predicted["compute"] += share * foretold["compute_seconds"]
        predicted["io"] += share * sum(
            foretold[f"{kind}_seconds"] for kind in ("read", "write", "metadata")
        )
        for one in ran:
            work_s = one.ended_s - one.began_s if one.work_s is None else one.work_s
            computed_s = min(one.compute_s, work_s)
            actual["compute"] += computed_s
            actual["io"] += work_s - computed_s
    least_s = max(LEAST_S * tasks, LEAST_SHARE * sum(predicted.values()))
    return {
        kind: Pair(kind, predicted[kind], actual[kind])
        for kind in ("compute", "io")
        if predicted[kind] >= least_s and actual[kind] > 0
    }
