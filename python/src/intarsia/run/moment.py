"""A run as it is at a moment: what a terminal and a page show, as plain values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from intarsia.run.ahead import Ahead
from intarsia.run.attempts import History
from intarsia.run.graph import Graph
from intarsia.run.progression import Progression, State
from intarsia.run.settings import Sent
from intarsia.schedule import Host, Task, TaskQueue

# Of a long list so many are shown.
_SHOWN = 25
_NAMED = 4


@dataclass(frozen=True)
class Moment:
    """What the engine knows now, which only its own thread may look at; `now_s` in Unix time.

    `queue`: the tasks that wait for a host, None before there are hosts.
    """

    graph: Graph
    progression: Progression
    history: History
    sent: Collection[Sent]
    queue: TaskQueue[str] | None
    ahead: Ahead
    now_s: float

    @property
    def waiting(self) -> list[tuple[str, Task]]:
        """Tasks that are ready and wait for a host."""
        return [] if self.queue is None else self.queue.waiting(self.now_s)

    @property
    def hosts(self) -> list[Host]:
        """Hosts as they are now."""
        return [] if self.queue is None else self.queue.hosts(self.now_s)


class View(Protocol):
    """What a person sees of a run."""

    def say(self, text: str) -> None:
        """Print one line, unless all is to be quiet."""

    def warn(self, text: str) -> None:
        """Print one line of a failure."""

    def update(self, moment: Moment) -> None:
        """Show how far the run is."""


def picture_of(moment: Moment) -> dict[str, Any]:
    """Return what is shown of a run; bytes and seconds, as the names say."""
    progression, history = moment.progression, moment.history
    return {
        "workflow": moment.graph.name,
        "schedule": history.schedule,
        "elapsed_s": round(max(0.0, moment.now_s - history.began_s), 1),
        "tasks": {state.value: progression.count(state) for state in State},
        "bytes": {
            "local": history.local_bytes,
            "remote": history.input_bytes - history.local_bytes,
            "copied_ahead": moment.ahead.copied_bytes,
        },
        "hosts": _hosts(moment),
        "stages": _stages(moment),
        "ready": _ready(moment),
        "blocked_by": _waits(moment),
        "failures": [{"task": name, "why": why} for name, why in history.failed.items()],
    }


def _hosts(moment: Moment) -> list[dict[str, Any]]:
    running: dict[str, list[Sent]] = defaultdict(list)
    for sent in moment.sent:
        running[sent.host].append(sent)
    local: Counter[str] = Counter()
    remote: Counter[str] = Counter()
    done: Counter[str] = Counter()
    for one in moment.history.done:
        done[one.host] += 1
        local[one.host] += one.local_bytes
        remote[one.host] += one.input_bytes - one.local_bytes
    free = {host.name: host.free_slots for host in moment.hosts}
    names = sorted({*free, *running, *done})
    return [
        {
            "host": name,
            "is_there": name in free,
            "free_slots": free.get(name, 0),
            "running": [
                {"task": sent.task, "for_s": round(moment.now_s - sent.sent_s, 1)}
                for sent in running[name]
            ],
            "done": done[name],
            "local_bytes": local[name],
            "remote_bytes": remote[name],
            "copies_for": moment.ahead.taking.get(name),
        }
        for name in names
    ]


def _stages(moment: Moment) -> list[dict[str, Any]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, task in moment.graph.tasks.items():
        counts[task.stage or name][moment.progression[name].value] += 1
    return [
        {
            "stage": stage,
            "all": found.total(),
            **{state.value: found[state.value] for state in State},
        }
        for stage, found in counts.items()
    ]


def _ready(moment: Moment) -> list[dict[str, Any]]:
    """Tasks that wait for a host, longest first, with where most of their data is."""
    longest = sorted(moment.waiting, key=lambda item: -item[1].waited_s)[:_SHOWN]
    found = []
    for name, task in longest:
        host = task.nearest
        found.append(
            {
                "task": name,
                "for_s": round(task.waited_s, 1),
                "host": host,
                "host_bytes": task.local_bytes(host) if host is not None else 0,
                "input_bytes": task.input_bytes,
            }
        )
    return found


def _waits(moment: Moment) -> list[dict[str, Any]]:
    """Tasks that wait for others, those first that wait for fewest."""
    progression = moment.progression
    waits = []
    for name in progression.named(State.WAITING):
        parents = sorted(
            one for one in moment.graph.parents[name] if progression[one] is not State.DONE
        )
        waits.append((len(parents), name, parents))
    return [
        {"task": name, "needs": count, "for": parents[:_NAMED]}
        for count, name, parents in sorted(waits)[:_SHOWN]
    ]
