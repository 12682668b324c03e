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
#: The same, where hosts share processors; earlier versions did not say so.
SHARED = ("task_processor_seconds", "start_alone_seconds", "alone_tasks", "computes")
#: How the tasks of a replay compute.
SLEPT, BURNED = "slept", "burned"


@dataclass(frozen=True, slots=True)
class EngineCost:
    """Seconds for each of `tasks`, an attempt each.

    `task_s` is what the engine itself takes, for one after the other; `start_s` for how much longer
    a slot is taken than the command takes. `task_processor_s` is for how long the engine's process
    used a processor, and `start_alone_s` the mean of `start_s` of those `alone_tasks` beside which
    no other ran: what both take where nobody else wants the processors. None where nobody knows.
    """

    task_s: float
    start_s: float
    tasks: int
    task_processor_s: float | None = None
    start_alone_s: float | None = None
    alone_tasks: int = 0


def engine_cost(
    worked_s: float,
    beside_s: float,
    away_s: Sequence[float],
    *,
    processor_s: float | None = None,
    alone_s: Sequence[float] = (),
) -> EngineCost | None:
    """Return what a task took in the engine; None where nothing ran.

    `worked_s` is how long the engine worked in all, `beside_s` for how long its process used a
    processor while it waited, and `away_s` how long each attempt was out of its hands, without
    what its command took. The second lies within the third, and is not counted twice. It is means
    that add up to what a run takes; what an engine does once in a run is spread over its tasks.
    `processor_s` is for how long it used a processor in all, and `alone_s` those of `away_s` beside
    which no other was.

    >>> engine_cost(0.02, 0.01, [0.004] * 10)
    EngineCost(task_s=0.003, start_s=0.003, tasks=10, task_processor_s=None, start_alone_s=None, \
alone_tasks=0)
    """
    if not away_s:
        return None
    beside = beside_s / len(away_s)
    start_s = max(0.0, statistics.fmean(away_s) - beside)
    return EngineCost(
        worked_s / len(away_s) + beside,
        start_s,
        len(away_s),
        None if processor_s is None else processor_s / len(away_s),
        max(0.0, statistics.fmean(alone_s) - beside) if alone_s else None,
        len(alone_s),
    )


def with_engine(
    profile: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], EngineCost | None]:
    """Return the profile with what the engine took in these runs, and in those that it has.

    Each run counts once, by its `id`, and by its tasks. The cost is None, and the profile as it
    was, where there is no run.
    """
    made: dict[str, Any] = copy.deepcopy(dict(profile))
    known = {one["id"]: one for one in made.get("measured", {}).get("engine", {}).get("runs", [])}
    known |= {one["id"]: _kept(one) for one in runs}
    if not known:
        return made, None
    found = _mean(list(known.values()))
    made["engine"] = {
        "source": "measured",
        "note": _note(list(known.values())),
        "task_seconds": found.task_s,
        "start_seconds": found.start_s,
    }
    if found.task_processor_s is not None:
        made["engine"]["task_processor_seconds"] = found.task_processor_s
    if found.start_alone_s is not None:
        made["engine"]["start_alone_seconds"] = found.start_alone_s
    if all(one.get("computes") == SLEPT for one in known.values()):
        made["engine"]["computes"] = SLEPT
    made.setdefault("measured", {})["engine"] = {"runs": list(known.values())}
    return made, found


def _kept(run: Mapping[str, Any]) -> dict[str, Any]:
    return {key: run[key] for key in COST} | {key: run[key] for key in SHARED if key in run}


def _mean(runs: Sequence[Mapping[str, Any]]) -> EngineCost:
    task_s, start_s = _mean_of(runs, "task_seconds"), _mean_of(runs, "start_seconds")
    return EngineCost(
        task_s or 0.0,
        start_s or 0.0,
        sum(one["tasks"] for one in runs),
        _mean_of(runs, "task_processor_seconds"),
        _mean_of(runs, "start_alone_seconds", by="alone_tasks"),
        sum(one.get("alone_tasks", 0) for one in runs),
    )


def _mean_of(runs: Sequence[Mapping[str, Any]], key: str, by: str = "tasks") -> float | None:
    """Return the mean over tasks of the runs that say it; None where none does."""
    saying = [one for one in runs if key in one]
    tasks = sum(one[by] for one in saying)
    return float(sum(one[key] * one[by] for one in saying) / tasks) if tasks else None


def _note(runs: Sequence[Mapping[str, Any]]) -> str:
    last = max(runs, key=lambda one: str(one["ended_at"]))
    tasks = sum(one["tasks"] for one in runs)
    kind = {True: "replayed ", False: ""}[all(one["replay"] for one in runs)]
    times = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    return f"{tasks} {kind}tasks of {times} of intarsia run, on {last['host']}, {last['ended_at']}"
