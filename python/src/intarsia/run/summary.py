"""What a run comes to: as an object for programs, and as lines for a person."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from intarsia.learn.tell import in_order, object_of
from intarsia.run.attempts import History

_MEGA = 1e6
#: What to do where a store is gone.
HELP = (
    "help: bring the store up again with `intarsia up`, as it was begun (--up does that by "
    "itself); then the same command goes on from here"
)


def summary_of(history: History) -> dict[str, Any]:
    """Return what `--json` prints; bytes and seconds, as the names say."""
    hosts: dict[str, dict[str, float]] = defaultdict(lambda: {"tasks": 0, "busy_s": 0.0})
    for one in history.attempts:
        hosts[one.host]["tasks"] += 1
        hosts[one.host]["busy_s"] += round(one.outcome.took_s, 3)
    return {
        "workflow": history.graph.name,
        "is_well": history.is_well,
        "stopped_by": history.stopped_by or None,
        "tasks": {
            "all": len(history.graph.tasks),
            "done": len({one.task for one in history.done}),
            "done_before": len(history.reused),
            "failed": len(history.failed),
            "blocked": len(history.blocked),
            "not_run": len(history.not_run),
            "made_again": len(history.remade),
        },
        "attempts": len(history.attempts),
        "workers_lost": history.workers_lost(),
        "makespan_s": round(history.makespan_s, 3),
        "schedule": history.schedule,
        "engine": _cost_of(history),
        "input_bytes": history.input_bytes,
        "local_bytes": history.local_bytes,
        "remote_bytes": history.input_bytes - history.local_bytes,
        "copied_ahead_bytes": history.fetched_bytes,
        "removed_files": len(history.removed),
        "hinted_files": len(history.hints),
        "lessons": [object_of(one) for one in in_order(history.lessons.values())],
        "copies_or_recomputation": history.protection,
        "hosts": dict(hosts),
        "failures": [{"task": name, "why": why} for name, why in history.failed.items()],
        "blocked": list(history.blocked),
        "warnings": history.warnings,
        "run_dir": str(history.run_dir),
    }


def _cost_of(history: History) -> dict[str, float] | None:
    """What the engine took for each task, in seconds."""
    cost = history.engine_cost
    if cost is None:
        return None
    return {"task_s": round(cost.task_s, 6), "start_s": round(cost.start_s, 6)}


def lines_of(history: History) -> list[str]:
    """Return what is said at the end."""
    summary = summary_of(history)
    tasks = summary["tasks"]
    counts = [f"{tasks['done']} done"]
    counts += [
        f"{tasks[key]} {key.replace('_', ' ')}"
        for key in ("done_before", "failed", "blocked", "not_run", "made_again")
        if tasks[key]
    ]
    lines = [
        f"{history.graph.name}: {tasks['all']} tasks: {', '.join(counts)}; "
        f"{history.makespan_s:.1f} s"
    ]
    if history.input_bytes:
        share = 100 * history.local_bytes / history.input_bytes
        lines.append(
            f"read from disks: {history.input_bytes / _MEGA:.1f} MB, {share:.0f} % of them where "
            f"the task ran, {summary['remote_bytes'] / _MEGA:.1f} MB from other hosts"
        )
    lines += [f"warning: {text}" for text in history.warnings]
    if history.stopped_by:
        lines.append(f"stopped: {history.stopped_by}{_next(history)}")
    return lines


def _next(history: History) -> str:
    """What to do after a run that was stopped."""
    if history.lost_store:
        return f"\n{HELP}"
    return "; the same command goes on from here"
