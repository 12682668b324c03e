"""What a run knows from earlier ones, and leaves for later ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from intarsia.learn.lessons import Costs, Lesson, lessons_of
from intarsia.learn.observed import LearnError, Observed, Role
from intarsia.learn.source import observed_in
from intarsia.locate import host_of
from intarsia.run.attempts import History
from intarsia.run.journal import Past
from intarsia.run.record import wfformat_of
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
