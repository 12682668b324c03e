"""Runs a workflow: hands tasks to hosts when their inputs are there, until all are done."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from intarsia.locate import Locations, has_left, locate
from intarsia.run.affinity import Affinity
from intarsia.run.ahead import Ahead
from intarsia.run.attempts import Attempt, History
from intarsia.run.clock import steady_clock
from intarsia.run.events import (
    Broken,
    Crew,
    Event,
    Fetched,
    HostJoined,
    HostLeft,
    HostRefused,
    StopAsked,
    StoreBack,
    StoreLeft,
    TaskEnded,
)
from intarsia.run.graph import Graph
from intarsia.run.hold import Hold
from intarsia.run.journal import Journal
from intarsia.run.moment import Moment, View
from intarsia.run.order import COUNTED, Outcome, Result
from intarsia.run.patience import SETTLE_S
from intarsia.run.progression import GOING, LOSSES, Progression, State
from intarsia.run.results import lost_among, unreadable_among
from intarsia.run.settings import Sent, Settings
from intarsia.run.tail import tail_of
from intarsia.run.temporary import Temporary, temporary_files
from intarsia.run.waiting import Waiting
from intarsia.schedule import TaskQueue

# How often to look again when nothing happens: a policy may let a task wait for so long.
_TICK_S = 0.2
# What failed while the store recovers is tried again after so long.
_HOLD_S = 5.0
# What does not end so long after it was to be ended hangs in a call that nobody can end.
_STOP_S = 15.0


class Engine:
    """One run of a workflow; `run` is called once."""

    def __init__(
        self,
        graph: Graph,
        lineage: Mapping[str, str],
        to_run: set[str],
        journal: Journal,
        crew: Crew,
        settings: Settings,
        history: History,
        view: View,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._graph = graph
        self._lineage = lineage
        self._journal = journal
        self._crew = crew
        self._settings = settings
        self._history = history
        self._view = view
        self._clock = clock or steady_clock()
        self._hold = Hold(journal, view, self._clock)
        self._progression = Progression(graph, to_run, settings.retries)
        self._queue: TaskQueue[str] | None = None
        self._sent: dict[str, Sent] = {}
        self._ready_s: dict[str, float] = {}
        self._is_draining = False
        self._problem = ""
        self._host_lost_s = -SETTLE_S
        self._gone: set[str] = set()
        self._held: dict[str, float] = {}
        # What ended while it could not be recorded.
        self._late: list[TaskEnded] = []
        self._stopped_s = float("inf")
        self._ahead = Ahead(crew, settings.ahead)
        affinity = Affinity(graph) if settings.by_affinity else None
        self._waiting = Waiting(graph, self._ahead.known, affinity)
        temporary = temporary_files(graph, settings.hints or {})
        self._temporary = Temporary(graph, temporary, settings.directory)

    def run(self) -> History:
        """Run what has to run; returns what happened, also when it is stopped."""
        self._history.began_s = self._clock()
        self._temporary.begin(self._is_done)
        self._take(self._progression.release())
        self._go_on()
        while self._has_lost_results():
            self._go_on()
        self._history.ended_s = self._clock()
        self._history.fetched_bytes = self._ahead.copied_bytes
        self._history.removed = tuple(self._temporary.removed)
        self._history.warnings += self._temporary.problems
        self._history.blocked = tuple(self._progression.named(State.BLOCKED))
        self._history.not_run = tuple(
            name for state in GOING for name in self._progression.named(state)
        )
        self._history.stopped_by = self._problem
        is_in_store = self._settings.store is not None
        self._history.lost_store = is_in_store and self._hold.is_store_away
        return self._history

    def _go_on(self) -> None:
        effort = self._history.effort
        while not self._is_over():
            effort.works()
            has_begun = self._start()
            effort.waits()
            events = self._crew.wait(_TICK_S)
            effort.works()
            for event in events:
                self._handle(event)
            self._look_after_store()
            self._give_up_what_hangs()
            self._view.update(self._moment())
            effort.ends_turn(counts=has_begun or bool(events))

    def _has_lost_results(self) -> bool:
        """Whether results went with a host and are to be made again; others are given up."""
        if self._is_draining or self._is_away():
            return False
        results = [
            file for file in self._graph.results if self._is_done(self._graph.producer[file])
        ]
        files = self._by_path(results)
        lost: dict[str, list[str]] = {}
        for path in lost_among(list(files), self._gone):
            lost.setdefault(self._graph.producer[files[path]], []).append(files[path])
        again = []
        for name, some in lost.items():
            said = f"{', '.join(some)} went with a host"
            if self._progression.redo(name, self._settings.remakes):
                self._view.say(f"{said}; made again by {name}")
                again.append(name)
            else:
                too_often = f"for the {LOSSES + 1}th time"
                advice = too_often if self._settings.remakes else "--lineage makes it again"
                self._fail(name, f"{said}; {advice}")
        self._history.remade += again
        self._take(self._progression.release(again))
        return bool(again)

    def _moment(self) -> Moment:
        now_s = self._clock()
        return Moment(
            self._graph,
            self._progression,
            self._history,
            self._sent.values(),
            self._queue,
            self._ahead,
            now_s,
        )

    def _is_done(self, name: str) -> bool:
        return self._progression[name] is State.DONE

    def _is_over(self) -> bool:
        if self._is_draining:
            return not self._sent
        return self._progression.is_over()

    def _handle(self, event: Event) -> None:
        match event:
            case TaskEnded():
                if self._hold.is_on and event.outcome.result is Result.DONE:
                    self._late.append(event)
                else:
                    self._ended(event)
            case Fetched():
                self._fetched(event)
            case HostJoined():
                if self._queue is None:
                    self._queue = TaskQueue(
                        {event.host: event.slots},
                        self._settings.policy,
                        link_bytes_per_s=self._settings.link_bytes_per_s,
                        in_order=self._settings.in_order,
                    )
                    self._take(self._progression.named(State.READY))
                else:
                    self._queue.set_host(event.host, event.slots)
                self._history.machines[event.host] = dict(event.machine)
                self._gone.discard(event.host)
                self._hold.joined(event.host)
            case HostLeft():
                if self._queue is not None:
                    self._queue.remove_host(event.host)
                self._host_lost_s = self._clock()
                self._gone.add(event.host)
                self._ahead.forget((), event.host)
                self._hold.left(event)
            case StoreLeft():
                self._hold.left_here(event)
            case StoreBack():
                if self._hold.back_here():
                    self._go_on_with_store()
            case HostRefused():
                self._view.warn(f"host {event.host}: {event.reason}; nothing runs there")
            case StopAsked():
                self._stop(event.signal)
            case Broken():
                self._break(event.reason)

    def _break(self, reason: str) -> None:
        """End the run here: nothing more will be heard of what runs."""
        self._problem, self._is_draining = self._problem or reason, True
        self._sent.clear()

    def _look_after_store(self) -> None:
        """Go on where the store is back, or give the run up if it stays away."""
        if self._hold.is_over():
            self._go_on_with_store()
        reason = self._hold.verdict()
        if reason and (self._sent or not self._is_draining):
            self._break(reason)

    def _go_on_with_store(self) -> None:
        """Take note of what happened while that could not be recorded."""
        if self._hold.is_on:
            return
        late, self._late = self._late, []
        for event in late:
            self._handle(event)
        self._take(self._progression.named(State.READY))

    def _give_up_what_hangs(self) -> None:
        """Wait no longer for tasks that were to be ended long ago."""
        if self._sent and self._clock() - self._stopped_s > _STOP_S:
            names = ", ".join(sorted(sent.task for sent in self._sent.values()))
            self._view.warn(f"tasks that do not end, and are left to themselves: {names}")
            self._sent.clear()

    def _stop(self, number: int) -> None:
        name = signal.Signals(number).name
        if number == signal.SIGINT and not self._is_draining:
            self._view.say(
                f"{name}: nothing more begins; tasks that run: {len(self._sent)} "
                "(once more ends them now)"
            )
        else:
            self._crew.stop_tasks()
            self._stopped_s = min(self._stopped_s, self._clock())
        self._problem, self._is_draining = name, True

    def _take(self, names: Iterable[str]) -> None:
        """Put tasks that are ready into the queue, with where their inputs lie."""
        if self._queue is None or self._hold.is_on:
            return
        now_s = self._clock()
        for name in self._waiting.in_turns(names):
            if self._progression[name] is not State.READY:
                self._queue.discard(name)
                continue
            self._waiting.undone(name)
            found = locate(self._paths(self._graph.tasks[name].inputs))
            self._waiting.add(name, found)
            for file, one in zip(self._graph.tasks[name].inputs, found.files, strict=True):
                if one.hosts:
                    self._history.lay_on[file] = one.hosts
            if not self._has_inputs(name, found):
                continue
            self._ready_s.setdefault(name, now_s)
            self._queue.add(name, self._waiting.task(name), now_s)

    def _tell_queue(self, names: Iterable[str]) -> None:
        """Have the queue know what has become of tasks that wait."""
        if self._queue is not None:
            for name in names:
                self._queue.update(name, self._waiting.task(name))

    def _fetched(self, event: Fetched) -> None:
        """Have tasks know of copies that were made ahead."""
        self._ahead.ended(event)
        if self._queue is not None:
            self._tell_queue(name for name, _ in self._queue.waiting(self._clock()))

    def _has_read(self, name: str, host: str) -> None:
        """Have the tasks that wait for the same inputs know that a host has them by now."""
        inputs = self._graph.tasks[name].inputs
        by_path = dict(zip(self._paths(inputs), inputs, strict=True))
        news = [by_path[path] for path in self._ahead.kept.read(by_path, host)]
        self._tell_queue(self._waiting.readers(news))

    def _has_inputs(self, name: str, found: Locations) -> bool:
        """Whether all inputs are there; if not, they are made again or the task has failed."""
        inputs = self._graph.tasks[name].inputs
        gone = [
            file
            for file, one in zip(inputs, found.files, strict=True)
            if one.problem == os.strerror(errno.ENOENT)
        ]
        if gone and not self._is_away():
            self._lose(name, gone, "is gone")
        return not gone

    def _is_away(self) -> bool:
        """Whether all files are gone from here, with the store; then the run holds on."""
        if not has_left(self._settings.directory, self._settings.store):
            return False
        self._hold.left_here(StoreLeft("it is not mounted"))
        return True

    def _lose(self, name: str, files: list[str], what: str) -> None:
        """Make files again for a task that cannot go without them, or give it up."""
        orphans = [file for file in files if file not in self._graph.producer]
        if orphans or not self._settings.remakes:
            first = (orphans or files)[0]
            advice = "no task makes it" if orphans else "--lineage makes it again"
            self._give_up(name, f"input {first} {what}; {advice}")
            return
        makers = list(dict.fromkeys(self._graph.producer[file] for file in files))
        changed = self._progression.remake(name, makers)
        if self._progression[name] is State.FAILED:
            self._fail(name, f"input {files[0]} {what}, for the {LOSSES + 1}th time")
            return
        self._view.say(f"{', '.join(files)}: {what}; made again by {', '.join(makers)}")
        self._history.remade += makers
        self._ahead.forget(self._paths(files))
        self._take(changed)

    def _give_up(self, name: str, why: str) -> None:
        self._progression.give_up(name)
        self._fail(name, why)

    def _fail(self, name: str, why: str) -> None:
        self._history.failed[name] = why
        self._view.warn(f"task {name} failed: {why}")
        if not self._settings.keeps_going and not self._is_draining:
            self._is_draining = True
            if self._sent:
                self._view.say(f"nothing more begins; tasks that run: {len(self._sent)}")

    def _start(self) -> bool:
        """Hand over what may begin now; says whether anything did."""
        if self._queue is None or self._is_draining or self._hold.is_on:
            return False
        has_begun = False
        due = [name for name, when_s in self._held.items() if when_s <= self._clock()]
        for name in due:
            del self._held[name]
        self._take(due)
        # One by one, as where a task runs counts for where others had best run.
        while starts := self._queue.start(self._clock(), at_most=1):
            (start,) = starts
            name = start.key
            number = self._progression.start(name)
            key = f"{name}#{number}-{self._lineage[name][:8]}-{self._history.began_s:.6f}"
            log = str(self._settings.run_dir / "logs" / f"{name}.{number}.log")
            now_s = self._clock()
            self._sent[key] = Sent(
                name, number, start.host, self._ready_s.pop(name, now_s), now_s, start.task, log
            )
            self._ahead.started(name)
            order = self._settings.order(self._graph.tasks[name], number, log, self._gone)
            self._crew.begin(key, start.host, order)
            self._sent[key].handed_s = self._clock()
            # And where what is read beside what the others make will be.
            self._tell_queue(self._waiting.began(name, start.host))
            has_begun = True
        self._tell_queue(self._ahead.begin(self._queue, self._waiting.inputs, self._clock()))
        return has_begun

    def _paths(self, files: Iterable[str]) -> list[str]:
        return self._settings.paths(files)

    def _ended(self, event: TaskEnded) -> None:
        sent, outcome = self._sent.get(event.key), event.outcome
        if sent is None or self._queue is None:
            return
        name = sent.task
        if not outcome.began_s:
            outcome = replace(outcome, began_s=sent.sent_s, ended_s=self._clock())
        if self._progression.is_doubtful(name) and outcome.result in COUNTED:
            detail = "an input was made again while it ran"
            outcome = replace(outcome, result=Result.DOUBTFUL, detail=detail)
        outcome = self._believed(name, outcome)
        if outcome.result is Result.DONE and not self._record(sent, outcome):
            self._late.append(event)
            return
        self._sent.pop(event.key, None)
        self._queue.finish(name, self._clock())
        self._keep(sent, outcome)
        if outcome.result is Result.DONE:
            self._done(sent, outcome)
        else:
            self._failed(sent, outcome)

    def _record(self, sent: Sent, outcome: Outcome) -> bool:
        """Have the journal know that a task is done; says whether it does."""
        files = self._by_path(self._graph.tasks[sent.task].outputs)
        made = {files[path]: stamp for path, stamp in outcome.outputs.items()}
        told = replace(outcome, outputs=made)
        lineage = self._lineage[sent.task]
        return self._hold.record(lambda: self._journal.done(sent.task, lineage, sent.host, told))

    def _done(self, sent: Sent, outcome: Outcome) -> None:
        name = sent.task
        self._has_read(name, sent.host)
        files = self._by_path(self._graph.tasks[name].outputs)
        sizes = {files[path]: stamp.size_bytes for path, stamp in outcome.outputs.items()}
        self._waiting.done(name, sizes.values())
        if self._settings.tags is not None:
            self._warn_of_hints(self._settings.tags.made(sizes))
        self._take(self._progression.done(name))
        self._temporary.done(name, self._is_done)

    def _believed(self, name: str, outcome: Outcome) -> Outcome:
        """Doubt a task that ended well although inputs of it went with a host: it may lack them."""
        if outcome.result is not Result.DONE or not self._gone:
            return outcome
        inputs = self._by_path(self._graph.tasks[name].inputs)
        lost = tuple(unreadable_among(list(inputs), self._gone))
        if not lost:
            return outcome
        if self._settings.remakes:
            detail = "ended well, but may not have read all of its inputs"
            return replace(outcome, result=Result.LOST_INPUT, detail=detail, outputs={}, lost=lost)
        names = ", ".join(inputs[path] for path in lost)
        said = f"{name} may not have read {names}, which went with a host; --lineage runs it again"
        self._view.warn(said)
        self._history.warnings.append(said)
        return outcome

    def _keep(self, sent: Sent, outcome: Outcome) -> None:
        local = sent.placed.local_bytes(sent.host)
        self._history.attempts.append(
            Attempt(
                sent.task,
                sent.number,
                sent.host,
                sent.ready_s,
                sent.sent_s,
                sent.placed.input_bytes,
                min(local, sent.placed.input_bytes),
                outcome,
                sent.log,
                sent.task in self._history.remade,
                self._clock() - sent.handed_s,
            )
        )
        if outcome.hint_problem:
            self._warn_of_hints([outcome.hint_problem])

    def _warn_of_hints(self, problems: list[str]) -> None:
        """Tell once in a run what was wrong with hints."""
        if problems and not self._history.warnings:
            self._history.warnings.append(f"hints that were refused: {'; '.join(problems)}")

    def _failed(self, sent: Sent, outcome: Outcome) -> None:
        name = sent.task
        if outcome.result is Result.STOPPED:
            return
        if outcome.result is Result.LOST_INPUT:
            files = self._by_path(self._graph.tasks[name].inputs)
            self._lose(name, [files[path] for path in outcome.lost], "cannot be read")
            return
        is_lost = outcome.result not in COUNTED
        is_away = outcome.result is Result.STORE_LOST
        is_recovering = is_away or (not is_lost and self._is_recovering())
        again = (
            self._progression.lost(name, counts=not is_away)
            if is_lost or is_recovering
            else self._progression.failed(name)
        )
        said = outcome.detail if is_lost else f"{outcome.detail}; see {sent.log}"
        if again:
            self._view.say(f"task {name} on {sent.host}: {said}; tried again")
            if is_recovering:
                self._held[name] = self._clock() + _HOLD_S
            else:
                self._take([name])
        else:
            self._fail(name, said)
            for line in tail_of(Path(sent.log)):
                self._view.warn(line)

    def _is_recovering(self) -> bool:
        """Whether a host was lost just now: what fails meanwhile says nothing of its task."""
        return self._clock() - self._host_lost_s < SETTLE_S or self._crew.has_silent()

    def _by_path(self, files: Iterable[str]) -> dict[str, str]:
        return {str(self._settings.directory / file): file for file in files}
