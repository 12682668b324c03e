"""What a run does when its store goes away, and comes back or does not."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from intarsia.run import engine as engine_module
from intarsia.run.attempts import History
from intarsia.run.engine import Engine
from intarsia.run.events import Event, HostJoined, HostLeft, StopAsked, StoreBack, StoreLeft
from intarsia.run.graph import Graph, Task, graph_of
from intarsia.run.journal import Journal, JournalBusyError, JournalError
from intarsia.run.lookout import look
from intarsia.run.order import Order, Outcome, Result
from intarsia.run.patience import SETTLE_S
from intarsia.run.plan import plan_of
from intarsia.run.progression import LOSSES
from intarsia.run.settings import Settings
from intarsia.run.summary import lines_of
from intarsia.run.watch import BACK, Judge, Sight
from intarsia.schedule import blind
from run_graphs import HereCrew, Quiet, make_here

ENDED = "its node has ended"
AWAY = Outcome(Result.STORE_LOST, "the store is gone")


class TimedCrew(HereCrew):
    """A crew whose time goes on only while nothing happens; events may come at a certain time."""

    def __init__(self, slots: dict[str, int], make: Callable[[Order, str], Outcome]) -> None:
        super().__init__(slots, make)
        self.now_s = 1000.0
        self.later: list[tuple[float, Event]] = []

    def wait(self, timeout_s: float) -> list[Event]:
        due = [event for when_s, event in self.later if when_s <= self.now_s]
        self.later = [one for one in self.later if one[0] > self.now_s]
        events = [*due, *super().wait(timeout_s)]
        if not events:
            self.now_s += timeout_s
        return events


class HangingCrew(TimedCrew):
    """A crew whose attempts never end."""

    def begin(self, key: str, host: str, order: Order) -> None:
        self.begun.append((order.task, host))


def chain() -> Graph:
    return graph_of("chain", "chain", [Task("a", "x", (), ("f",)), Task("b", "x", ("f",), ("g",))])


def run(
    directory: Path, crew: TimedCrew, journal: Journal | None = None, store: str | None = "s"
) -> tuple[History, list[str]]:
    """Run the chain; return what happened and what was said."""
    graph, view = chain(), Quiet()
    history = History(graph, directory, directory / "run", "blind")
    settings = Settings(directory, directory / "run", blind, store=store)
    with journal or Journal(directory / "run/journal") as journal:
        plan = plan_of(graph, directory, journal.made)
        parts = (graph, plan.lineage, set(plan.to_run), journal, crew, settings, history, view)
        Engine(*parts, clock=lambda: crew.now_s).run()
    return history, view.said


@pytest.fixture(autouse=True)
def _stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of a test is in no store."""
    monkeypatch.setattr(engine_module, "has_left", lambda *_: False)


def test_a_run_whose_store_stays_away_from_all_hosts_ends_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    crew = HangingCrew({"n1": 1, "n2": 1}, make_here)
    crew.later = [(1010.0, HostLeft("n1", ENDED)), (1012.0, HostLeft("n2", ENDED))]
    history, said = run(tmp_path, crew)
    assert 1012.0 + SETTLE_S <= crew.now_s < 1013.0 + SETTLE_S
    assert history.lost_store
    assert not history.is_well
    assert history.stopped_by == (f"the store is gone from all hosts: n1: {ENDED}; n2: {ENDED}")
    assert "intarsia up" in lines_of(history)[-1]
    assert f"host n2: the store is gone from it: {ENDED}" in said


def test_a_host_that_was_without_the_store_for_long_is_waited_for_no_more(tmp_path: Path) -> None:
    crew = HangingCrew({"n1": 1}, make_here)
    crew.later = [(1010.0, HostLeft("n1", "all calls fail", age_s=SETTLE_S))]
    run(tmp_path, crew)
    assert crew.now_s < 1011.0


def test_a_run_goes_on_where_the_store_comes_back_in_time(tmp_path: Path) -> None:
    crew = TimedCrew({}, make_here)
    crew.tell(HostJoined("n1", 1))
    crew.tell(HostLeft("n1", ENDED))
    crew.later = [(1000.0 + SETTLE_S - 1, HostJoined("n1", 1))]
    history, _ = run(tmp_path, crew)
    assert history.is_well
    assert not history.lost_store


def test_a_store_that_goes_costs_a_task_no_try_however_often(tmp_path: Path) -> None:
    """As a task is begun on one host after the other, of which all have lost the store."""
    left = [AWAY] * (LOSSES + 2)
    crew = TimedCrew({"n1": 1}, lambda order, host: left.pop() if left else make_here(order, host))
    history, _ = run(tmp_path, crew)
    assert history.is_well
    assert crew.now_s > 1000.0, "it is not begun again and again at once"


def test_nothing_begins_or_is_recorded_while_the_store_is_gone_from_the_run(
    tmp_path: Path,
) -> None:
    """The first task ends just after that."""
    crew: TimedCrew

    def make(order: Order, host: str) -> Outcome:
        if order.task == "a":
            crew.tell(StoreLeft(ENDED))
            crew.later = [(1020.0, StoreBack())]
        else:
            assert crew.now_s >= 1020.0
        return make_here(order, host)

    crew = TimedCrew({"n1": 1}, make)
    history, _ = run(tmp_path, crew)
    assert history.is_well
    for event in (StoreLeft(ENDED), StoreLeft("all calls fail", SETTLE_S)):
        (tmp_path / "g").unlink()
        crew = TimedCrew({"n1": 1}, make_here)
        crew.tell(event)
        crew._events.reverse()
        history, _ = run(tmp_path, crew)
        assert history.stopped_by == f"the store is gone from this host: {event.problem}"
        assert history.not_run == ("b",)
        assert run(tmp_path, TimedCrew({"n1": 1}, make_here))[0].is_well


class FailingJournal(Journal):
    """A journal that takes no record until a certain time."""

    fails_s = 0.0
    clock: Callable[[], float]

    def done(self, task: str, lineage: str, host: str, outcome: Outcome) -> None:
        if self.clock() < self.fails_s:
            raise OSError(errno.ENOTCONN, "not connected")
        super().done(task, lineage, host, outcome)


@pytest.mark.parametrize("for_s", [5.0, SETTLE_S + 5.0])
def test_what_cannot_be_recorded_is_once_the_journal_takes_it(for_s: float, tmp_path: Path) -> None:
    crew = TimedCrew({"n1": 1}, make_here)
    journal = FailingJournal(tmp_path / "run/journal")
    journal.clock, journal.fails_s = (lambda: crew.now_s), 1000.0 + for_s
    history, _ = run(tmp_path, crew, journal)
    assert history.is_well == (for_s < SETTLE_S)
    assert [name for name, _ in crew.begun] == (["a", "b"] if history.is_well else ["a"])
    assert ("the journal takes no record" in history.stopped_by) == (for_s > SETTLE_S)


def test_tasks_that_cannot_be_ended_do_not_keep_a_run(tmp_path: Path) -> None:
    crew = HangingCrew({"n1": 1}, make_here)
    crew.later = [(1001.0, StopAsked(signal.SIGINT)), (1002.0, StopAsked(signal.SIGINT))]
    history, said = run(tmp_path, crew)
    assert crew.now_s < 1020.0
    assert history.stopped_by == "SIGINT"
    assert "tasks that do not end, and are left to themselves: a" in said


def test_a_journal_is_held_also_after_its_store_came_back(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    outcome = Outcome(Result.DONE)
    with Journal(path) as journal:
        journal.done("a", "l", "n1", outcome)
        content = path.read_bytes()
        # As if it was on another mount.
        path.unlink()
        with pytest.raises(FileNotFoundError):
            journal.reopen()
        path.write_bytes(content)
        with Journal(path), pytest.raises(JournalBusyError):
            journal.reopen()
        journal.reopen()
        with pytest.raises(JournalBusyError):
            Journal(path)
        journal.done("b", "l", "n1", outcome)
    with Journal(path) as journal:
        assert set(journal.made) == {"a", "b"}
        path.unlink()
        path.touch()
        with pytest.raises(JournalError, match="has lost"):
            journal.reopen()


def test_a_judge_waits_for_a_store_that_recovers_and_for_none_whose_node_ended() -> None:
    judge = Judge(0.0)
    assert judge.hear("ok 7", 1.0) == [BACK]
    assert judge.hear("fails Input/output error", 2.0) == []
    assert judge.hear("ok 7", SETTLE_S) == []
    assert judge.hear("fails Input/output error", SETTLE_S + 1.0) == []
    late_s = 2 * SETTLE_S
    failed = Sight("all calls fail: Input/output error", SETTLE_S)
    assert judge.hear("fails Input/output error", late_s) == [failed]
    assert judge.hear("fails Input/output error", late_s + 1.0) == []
    assert judge.hear("ok 7", late_s + 2.0) == [BACK]
    assert judge.hear(f"gone {ENDED}", late_s + 3.0) == [Sight(ENDED)]
    assert judge.is_lost
    assert judge.hear("ok 8", late_s + 4.0) == [BACK]
    absent = Sight("it is not mounted", is_absent=True)
    assert judge.hear("gone it is not mounted", late_s + 5.0) == [absent]


def test_a_judge_sees_a_store_that_was_brought_up_between_two_looks() -> None:
    judge = Judge(0.0)
    judge.hear("ok 7", 1.0)
    assert judge.hear("ok 8", 2.0) == [Sight("it was brought up anew"), BACK]


def test_a_judge_takes_a_slow_store_for_one_that_lives_and_gives_up_one_that_hangs() -> None:
    judge = Judge(0.0)
    judge.hear("ok 7", 0.0)
    assert judge.hear("", 2 * SETTLE_S - 1.0) == []
    assert judge.hear("", 2 * SETTLE_S) == [Sight("its node does not answer", 2 * SETTLE_S)]


def test_a_lookout_says_what_there_is_instead_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path)
    assert look(place, "s", 0) == "gone it is not mounted"
    assert look(f"{place}/none", "s", 0) == f"gone '{place}/none' is not there"
    monkeypatch.setattr(os, "getxattr", lambda *_: b'{"store": "s"}')
    assert look(place, "s", 0) == f"ok {tmp_path.stat().st_dev}"
    assert look(place, "t", 0) == "gone another store is there"

    for problem, told in (
        (errno.EIO, "fails Input/output error"),
        (errno.ENOTCONN, f"gone {ENDED}"),
    ):
        monkeypatch.setattr(os, "getxattr", partial(_fail, problem))
        assert look(place, "s", 0) == told


def _fail(problem: int, *_: object) -> bytes:
    raise OSError(problem, os.strerror(problem))
