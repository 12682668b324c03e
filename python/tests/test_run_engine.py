"""The order of things in a run, with a crew that makes attempts by functions."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from intarsia.locate import Located, Locations
from intarsia.run import results
from intarsia.run.attempts import History
from intarsia.run.engine import Engine
from intarsia.run.events import Broken, Event, HostJoined, HostLeft, StopAsked
from intarsia.run.graph import Graph, Task, graph_of
from intarsia.run.journal import Journal
from intarsia.run.order import Order, Outcome, Result
from intarsia.run.plan import plan_of
from intarsia.run.progression import Progression, State
from intarsia.run.settings import Settings
from intarsia.schedule import Host, blind
from intarsia.schedule import Task as Placed
from run_graphs import HereCrew, Quiet, make_here, random_graph

FAILED = Outcome(Result.FAILED, "ended with 3", 3, began_s=1.0, ended_s=2.0)


class Run:
    """One run in a directory, of a graph by a crew."""

    def __init__(
        self,
        graph: Graph,
        directory: Path,
        crew: HereCrew,
        *,
        retries: int = 0,
        keeps_going: bool = False,
        remakes: bool = False,
        settings: Settings | None = None,
    ) -> None:
        for file in graph.sources:
            if not (directory / file).exists():
                (directory / file).write_text(file)
        settings = settings or Settings(
            directory, directory / "run", blind, retries, None, keeps_going, remakes
        )
        self.history = History(graph, directory, directory / "run", "blind")
        self.view = Quiet()
        with Journal(directory / "run/journal") as journal:
            plan = plan_of(graph, directory, journal.made)
            engine = Engine(
                graph,
                plan.lineage,
                set(plan.to_run),
                journal,
                crew,
                settings,
                self.history,
                self.view,
            )
            engine.run()


@pytest.mark.parametrize("seed", range(15))
def test_every_task_runs_once_after_its_inputs_and_nothing_runs_twice(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    graph = random_graph(chance, 25)
    crew = HereCrew({"a": chance.randint(1, 3), "b": 1}, make_here)
    run = Run(graph, tmp_path, crew)
    assert run.history.is_well
    assert sorted(name for name, _ in crew.begun) == sorted(graph.tasks)
    again = HereCrew({"a": 1}, make_here)
    assert Run(graph, tmp_path, again).history.is_well
    assert again.begun == []


@pytest.mark.parametrize("seed", range(15))
def test_failures_end_what_needs_them_and_nothing_else(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    graph = random_graph(chance, 25)
    bad = set(chance.sample(sorted(graph.tasks), 3))

    def make(order: Order, host: str) -> Outcome:
        return FAILED if order.task in bad else make_here(order, host)

    run = Run(graph, tmp_path, HereCrew({"a": 2}, make), keeps_going=True)
    failed, blocked = set(run.history.failed), set(run.history.blocked)
    assert failed <= bad
    for name in graph.tasks:
        assert (name in blocked) == bool(graph.parents[name] & (failed | blocked))
    assert {one.task for one in run.history.done} == set(graph.tasks) - failed - blocked
    assert not run.history.is_well
    mended = HereCrew({"a": 2}, make_here)
    assert Run(graph, tmp_path, mended).history.is_well
    assert {name for name, _ in mended.begun} == failed | blocked


@pytest.mark.parametrize("seed", range(15))
def test_lost_workers_and_lost_files_are_made_up_for(seed: int, tmp_path: Path) -> None:
    """Now and then a worker goes in the middle, and a file that was made goes with its host."""
    chance = random.Random(seed)
    graph = random_graph(chance, 20)
    lost: set[str] = set()

    def make(order: Order, host: str) -> Outcome:
        gone = tuple(path for path in order.inputs if not Path(path).exists())
        if gone:
            return Outcome(Result.LOST_INPUT, "ended with 1", 1, 1.0, 2.0, lost=gone)
        if chance.random() < 0.1:
            return Outcome(Result.WORKER_LOST, "its worker went away")
        outcome = make_here(order, host)
        for path in order.inputs:
            made = os.path.relpath(path, tmp_path)
            if made in graph.producer and made not in lost and chance.random() < 0.2:
                lost.add(made)
                Path(path).unlink()
        return outcome

    run = Run(graph, tmp_path, HereCrew({"a": 2, "b": 1}, make), remakes=True, keeps_going=True)
    assert run.history.is_well, run.view.said
    for file in graph.results:
        assert (tmp_path / file).exists()


def pair(*more: Task) -> Graph:
    one = Task("one", "x", (), ("f",))
    return graph_of("w", "pair", [one, Task("two", "x", ("f",), ("g",)), *more])


def test_a_task_is_tried_again_as_often_as_it_says(tmp_path: Path) -> None:
    tries: Counter[str] = Counter()

    def make(order: Order, host: str) -> Outcome:
        tries[order.task] += 1
        return FAILED if tries[order.task] < 3 else make_here(order, host)

    assert Run(pair(), tmp_path, HereCrew({"a": 1}, make), retries=2).history.is_well
    assert tries == {"one": 3, "two": 3}
    tries.clear()
    (tmp_path / "g").unlink()
    run = Run(pair(), tmp_path, HereCrew({"a": 1}, make), retries=1)
    assert run.history.failed == {"two": f"ended with 3; see {tmp_path}/run/logs/two.2.log"}


def test_what_fails_while_a_host_is_silent_costs_no_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("intarsia.run.engine._HOLD_S", 0.0)
    tries: Counter[str] = Counter()

    def make(order: Order, host: str) -> Outcome:
        tries[order.task] += 1
        crew.is_one_silent = tries[order.task] < 3
        return FAILED if tries[order.task] < 4 else make_here(order, host)

    crew = HereCrew({"a": 1}, make)
    assert Run(pair(), tmp_path, crew, retries=1).history.is_well
    tries.clear()
    (tmp_path / "g").unlink()
    assert "two" in Run(pair(), tmp_path, HereCrew({"a": 1}, make), retries=1).history.failed


def test_a_lost_input_without_lineage_is_named(tmp_path: Path) -> None:
    def make(order: Order, host: str) -> Outcome:
        outcome = make_here(order, host)
        if order.task == "one":
            Path(order.outputs[0]).unlink()
        return outcome

    run = Run(pair(), tmp_path, HereCrew({"a": 1}, make))
    assert run.history.failed == {"two": "input f is gone; --lineage makes it again"}
    run = Run(pair(), tmp_path, HereCrew({"a": 1}, make), remakes=True)
    assert "for the 4th time" in run.history.failed["two"]


@pytest.mark.parametrize("remakes", [True, False])
def test_a_result_that_went_with_a_host_is_made_again_or_named(
    remakes: bool, tmp_path: Path
) -> None:
    """The result of the first task, and what it was made from, go while the last one runs."""
    crew: HereCrew
    graph = pair(Task("last", "x", ("in",), ("h",), after=("two",)))

    def make(order: Order, host: str) -> Outcome:
        outcome = make_here(order, host)
        if order.task == "last":
            crew.tell(HostLeft("b"))
            (tmp_path / "f").unlink()
            (tmp_path / "g").unlink()
        return outcome

    crew = HereCrew({"a": 1, "b": 1}, make)
    run = Run(graph, tmp_path, crew, remakes=remakes, keeps_going=True)
    begun = Counter(name for name, _ in crew.begun)
    if remakes:
        assert run.history.is_well
        assert begun == {"one": 2, "two": 2, "last": 1}
        assert run.history.remade == ["two", "one"]
    else:
        assert run.history.failed == {"two": "g went with a host; --lineage makes it again"}
        assert max(begun.values()) == 1


@pytest.mark.parametrize("remakes", [True, False])
def test_a_task_that_passed_over_an_input_which_went_with_a_host_runs_again_or_is_named(
    remakes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of the second task ends well although it could not read what the first made."""
    crew: HereCrew
    lost: set[str] = set()

    def make(order: Order, host: str) -> Outcome:
        outcome = make_here(order, host)
        if order.task == "one":
            lost.clear()
        if order.task == "two" and len(crew.begun) == 2:
            lost.add(str(tmp_path / "f"))
            crew.tell(HostLeft("b"))
        return outcome

    def found(paths: Sequence[str]) -> Locations:
        return Locations(tuple(Located(path, 1, {"b": 1}) for path in paths))

    monkeypatch.setattr(results, "locate", found)
    monkeypatch.setattr(results, "is_lost", lambda path, *_: path in lost)
    crew = HereCrew({"a": 1, "b": 1}, make)
    run = Run(pair(), tmp_path, crew, remakes=remakes)
    assert run.history.is_well
    begun = Counter(name for name, _ in crew.begun)
    if remakes:
        assert begun == {"one": 2, "two": 2}
        assert run.history.remade == ["one"]
    else:
        assert begun == {"one": 1, "two": 1}
        (warning,) = run.history.warnings
        assert "two may not have read f, which went with a host" in warning


def test_signals_stop_a_run_and_what_is_left_runs_next_time(tmp_path: Path) -> None:
    chain = pair(Task("three", "x", ("g",), ("h",)))
    for number in (signal.SIGINT, signal.SIGTERM):
        crew = HereCrew({"a": 1}, make_here)
        crew.tell(StopAsked(number))
        run = Run(chain, tmp_path, crew)
        assert run.history.stopped_by == signal.Signals(number).name
        assert crew.is_stopped == (number == signal.SIGTERM)
    left = HereCrew({"a": 1}, make_here)
    assert Run(chain, tmp_path, left).history.is_well
    assert [name for name, _ in left.begun] == ["three"]


def test_a_run_waits_for_a_host_that_left_and_ends_when_all_is_lost(tmp_path: Path) -> None:
    crew = HereCrew({"a": 1}, make_here)
    crew.tell(HostLeft("a"))
    crew.tell(HostJoined("b", 1))
    assert Run(pair(), tmp_path, crew).history.is_well
    assert [host for _, host in crew.begun] == ["a", "b"]
    (tmp_path / "g").unlink()
    crew = HereCrew({}, make_here)
    crew.tell(Broken("no host is left to run tasks on"))
    run = Run(pair(), tmp_path, crew)
    assert run.history.stopped_by == "no host is left to run tasks on"
    assert run.history.not_run == ("two",)


def test_policies_are_told_what_the_links_carry(tmp_path: Path) -> None:
    seen: set[float] = set()

    def policy(task: Placed, hosts: Sequence[Host]) -> Host | None:
        seen.update(host.link_bytes_per_s for host in hosts)
        return blind(task, hosts)

    settings = Settings(tmp_path, tmp_path / "run", policy, link_bytes_per_s=77.0)
    assert Run(pair(), tmp_path, HereCrew({"a": 1}, make_here), settings=settings).history.is_well
    assert seen == {77.0}


def test_temporary_files_go_with_their_last_reader_and_come_back_when_they_are_needed(
    tmp_path: Path,
) -> None:
    keep = {"lifetime": "reads:3"}
    graph = graph_of(
        "w",
        "w",
        [
            Task("make", "x", ("text",), ("a", "b", "c"), temp=("a",)),
            Task("lived", "x", ("text",), ("d",), hints={"lifetime": "reads:2"}),
            Task("kept", "x", ("text",), ("e",), hints=keep),
            Task("one", "x", ("a", "b", "d"), ("one",)),
            Task("two", "x", ("a", "d", "e"), ("two",)),
        ],
    )
    seen: dict[str, set[str]] = {}

    def make(order: Order, host: str) -> Outcome:
        missing = [path for path in order.inputs if not Path(path).exists()]
        assert not missing, order.task
        seen[order.task] = {path.name for path in tmp_path.iterdir() if path.is_file()}
        return make_here(order, host)

    run = Run(graph, tmp_path, HereCrew({"a": 1}, make))
    assert run.history.is_well
    assert {"a", "d"} <= seen["one"] & seen["two"], "not before both have read them"
    left = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert left == {"text", "b", "c", "e", "one", "two"}
    assert sorted(run.history.removed) == ["a", "d"]
    again = HereCrew({"a": 1}, make)
    assert Run(graph, tmp_path, again).history.is_well
    assert again.begun == [], "that they are gone is right"
    (tmp_path / "two").unlink()
    mended = HereCrew({"a": 1}, make)
    assert Run(graph, tmp_path, mended).history.is_well
    assert sorted(name for name, _ in mended.begun) == ["lived", "make", "two"]
    left = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert left == {"text", "b", "c", "e", "one", "two"}


@pytest.mark.parametrize("seed", range(10))
def test_a_workflow_of_temporary_files_alone_leaves_its_results(seed: int, tmp_path: Path) -> None:
    """Also when tasks fail, and when a run was ended before it had removed what it could."""
    chance = random.Random(seed)
    graph = random_graph(chance, 20)
    tasks = [replace(task, temp=task.outputs) for task in graph.tasks.values()]
    graph = graph_of("w", "w", tasks)
    bad = set(chance.sample(sorted(graph.tasks), 2))

    def make(order: Order, host: str) -> Outcome:
        return FAILED if order.task in bad else make_here(order, host)

    first = Run(graph, tmp_path, HereCrew({"a": 2}, make), keeps_going=True)
    for file in first.history.removed:
        (tmp_path / file).write_text(file)
    assert Run(graph, tmp_path, HereCrew({"a": 2}, make_here)).history.is_well
    for file in graph.producer:
        assert (tmp_path / file).exists() == graph.is_result(file), file


def test_a_task_that_fails_while_its_input_is_made_again_waits_for_it() -> None:
    tasks = [Task("make", "x", (), ("f",))]
    tasks += [Task(name, "x", ("f",), (f"{name}.out",)) for name in ("first", "second")]
    progression = Progression(graph_of("w", "w", tasks), {"make", "first", "second"}, 2)
    assert progression.release() == ["make"]
    progression.start("make")
    assert progression.done("make") == ["first", "second"]
    for name in ("first", "second"):
        progression.start(name)
    assert progression.remake("first", ["make"]) == ["first", "make"]
    assert progression.failed("second")
    assert progression["second"] is State.WAITING
    progression.start("make")
    assert progression.done("make") == ["first", "second"]


class Lingering(HereCrew):
    """Two readers of a file run on until it is made again; one ends before that has ended."""

    readers = ("early", "late")

    def __init__(self, slots: dict[str, int], make: Callable[[Order, str], Outcome]) -> None:
        super().__init__(slots, make)
        self.lingering: dict[str, list[Event]] = {}

    def begin(self, key: str, host: str, order: Order) -> None:
        earlier, self._events = self._events, []
        super().begin(key, host, order)
        if order.task in self.readers and order.attempt == 1:
            self.lingering[order.task], self._events = self._events, []
        if order.task == "make" and order.attempt == 2:
            early, late = (self.lingering[name] for name in self.readers)
            self._events = [*early, *self._events, *late]
        self._events = [*earlier, *self._events]


@pytest.mark.parametrize("ending", [Result.DONE, Result.FAILED, Result.INCOMPLETE])
def test_what_reads_a_file_while_it_is_made_again_runs_again(
    ending: Result, tmp_path: Path
) -> None:
    tasks = [Task("make", "x", (), ("f",))]
    tasks += [Task(name, "x", ("f",), (f"{name}.out",)) for name in ("loses", *Lingering.readers)]

    def make(order: Order, host: str) -> Outcome:
        if order.task == "loses" and order.attempt == 1:
            return Outcome(Result.LOST_INPUT, "ended with 1", 1, 1.0, 2.0, lost=order.inputs)
        is_first = order.task in Lingering.readers and order.attempt == 1
        outcome = make_here(order, host)
        return replace(outcome, result=ending) if is_first else outcome

    crew = Lingering({"a": 3}, make)
    run = Run(graph_of("w", "w", tasks), tmp_path, crew, remakes=True)
    assert run.history.is_well, run.view.said
    assert Counter(name for name, _ in crew.begun) == dict.fromkeys([t.name for t in tasks], 2)
    ends = [one.outcome.result for one in run.history.attempts if one.task in crew.readers]
    assert sorted(ends) == [Result.DONE] * 2 + [Result.DOUBTFUL] * 2
