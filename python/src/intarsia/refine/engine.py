"""What a workflow engine takes for each task: found by its runs, and kept in a profile."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ENGINE_FORMAT = "intarsia-engine"
#: What `intarsia run` leaves in its run directory.
ENGINE = "engine.json"
#: What it says of a run, and what a profile keeps of that.
COST = ("id", "ended_at", "host", "hosts", "tasks", "replay", "task_seconds", "start_seconds")


@dataclass(frozen=True, slots=True)
class EngineCost:
    """Seconds for each of `tasks`, an attempt each.

    `task_s` is what the engine itself takes, for one after the other; `start_s` for how much longer
    a slot is taken than the command takes.
    """

    task_s: float
    start_s: float
    tasks: int


def engine_cost(worked_s: float, beside_s: float, away_s: Sequence[float]) -> EngineCost | None:
    """Return what a task took in the engine; None where nothing ran.

    `worked_s` is how long the engine worked in all, `beside_s` for how long its process used a
    processor while it waited, and `away_s` how long each attempt was out of its hands, without
    what its command took. The second lies within the third, and is not counted twice. It is means
    that add up to what a run takes; what an engine does once in a run is spread over its tasks.

    >>> engine_cost(0.02, 0.01, [0.004] * 10)
    EngineCost(task_s=0.003, start_s=0.003, tasks=10)
    """
    if not away_s:
        return None
    beside = beside_s / len(away_s)
    start_s = max(0.0, statistics.fmean(away_s) - beside)
    return EngineCost(worked_s / len(away_s) + beside, start_s, len(away_s))


def with_engine(
    profile: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], EngineCost | None]:
    """Return the profile with what the engine took in these runs, and in those that it has.

    Each run counts once, by its `id`, and by its tasks. The cost is None, and the profile as it
    was, where there is no run.
    """
    made: dict[str, Any] = copy.deepcopy(dict(profile))
    known = {one["id"]: one for one in made.get("measured", {}).get("engine", {}).get("runs", [])}
    known |= {one["id"]: {key: one[key] for key in COST} for one in runs}
    if not known:
        return made, None
    found = _mean(list(known.values()))
    made["engine"] = {
        "source": "measured",
        "note": _note(list(known.values())),
        "task_seconds": found.task_s,
        "start_seconds": found.start_s,
    }
    made.setdefault("measured", {})["engine"] = {"runs": list(known.values())}
    return made, found


def _mean(runs: Sequence[Mapping[str, Any]]) -> EngineCost:
    tasks = sum(one["tasks"] for one in runs)

    def mean(key: str) -> float:
        return float(sum(one[key] * one["tasks"] for one in runs) / tasks)

    return EngineCost(mean("task_seconds"), mean("start_seconds"), tasks)


def _note(runs: Sequence[Mapping[str, Any]]) -> str:
    last = max(runs, key=lambda one: str(one["ended_at"]))
    tasks = sum(one["tasks"] for one in runs)
    kind = {True: "replayed ", False: ""}[all(one["replay"] for one in runs)]
    times = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    return f"{tasks} {kind}tasks of {times} of intarsia run, on {last['host']}, {last['ended_at']}"
