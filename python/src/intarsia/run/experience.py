"""What a run knows from earlier ones, and leaves for later ones."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from intarsia.learn.lessons import Costs, Lesson, lessons_of
from intarsia.learn.observed import LearnError, Observed, Role
from intarsia.learn.source import observed_in
from intarsia.locate import host_of
from intarsia.refine.engine import BURNED, ENGINE, ENGINE_FORMAT, SLEPT
from intarsia.run.attempts import History
from intarsia.run.journal import Past
from intarsia.run.record import time_text, wfformat_of
from intarsia.run.replay import sleeps
from intarsia.simulate.files import write_atomically

#: The record of the last run, in its run directory.
RECORD = "observed.json"
# What a host keeps by itself of other hosts' files: those up to this part of its room.
_KEPT_PART = 8


def runs_before(
    run_dir: Path, records: Iterable[Path], say: Callable[[str], None]
) -> list[Observed]:
    """Return what was observed of earlier runs: of that in `run_dir`, if any, and of `records`.

    Raises LearnError for one of `records`. What a run has left by itself is only told when it
    cannot be used.
    """
    found = []
    own = run_dir / RECORD
    if own.exists():
        try:
            found.append(observed_in(own))
        except LearnError as error:
            say(f"warning: {error}; nothing is learned from it")
    return found + [observed_in(path) for path in records]


def lessons_for(
    runs: Iterable[Observed], directory: Path, hosts: int, link_bytes_per_s: float
) -> dict[Role, Lesson]:
    """Return which hints pay in a run over `hosts`, by what earlier runs were observed to do."""
    costs = Costs(link_bytes_per_s)
    if directory.is_dir() and host_of(directory) is not None:
        about = os.statvfs(directory)
        room = about.f_blocks * about.f_frsize / max(1, hosts)
        costs = Costs(link_bytes_per_s, kept_bytes=room / _KEPT_PART)
    return lessons_of(runs, costs)


def leave_record(run_dir: Path, history: History, past: Mapping[str, Past]) -> None:
    """Leave the record of a run that did something for the next one; raises OSError."""
    if history.done:
        text = json.dumps(wfformat_of(history, past))
        write_atomically(run_dir / RECORD, text.encode())
        _leave_cost(run_dir, history)


def _leave_cost(run_dir: Path, history: History) -> None:
    """Leave what the engine took for each task, for profiles."""
    cost = history.engine_cost
    if cost is None:
        return
    tasks = [history.graph.tasks[one.task] for one in history.done]
    document = {
        "format": ENGINE_FORMAT,
        "version": 1,
        "id": history.id,
        "ended_at": time_text(history.ended_s),
        "host": platform.node(),
        "hosts": len({one.host for one in history.done}),
        "tasks": cost.tasks,
        "replay": all(task.stdin is not None for task in tasks),
        "task_seconds": cost.task_s,
        "start_seconds": cost.start_s,
        "task_processor_seconds": cost.task_processor_s,
        "start_alone_seconds": cost.start_alone_s,
        "alone_tasks": cost.alone_tasks,
        "computes": SLEPT if all(sleeps(task.stdin) for task in tasks) else BURNED,
    }
    document = {key: value for key, value in document.items() if value is not None}
    write_atomically(run_dir / ENGINE, (json.dumps(document, indent=1) + "\n").encode())
