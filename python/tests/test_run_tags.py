"""Hints that a run sets as it goes on: what is known by when, and what is said of it."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from intarsia.learn.lessons import Lesson
from intarsia.learn.observed import Role
from intarsia.run import tags as tags_module
from intarsia.run.attempt import stamp_of
from intarsia.run.attempts import History
from intarsia.run.engine import Engine
from intarsia.run.graph import Graph, Task, graph_of
from intarsia.run.hints import Cluster, Derivation, chosen_by
from intarsia.run.journal import Journal
from intarsia.run.order import Order, Outcome
from intarsia.run.plan import derived_rows, plan_of
from intarsia.run.settings import Settings
from intarsia.run.tags import Inheritance, Tags, new_log
from intarsia.schedule import blind
from run_graphs import HereCrew, Quiet, make_here

LARGE = 20_000_000
CLUSTER = Cluster(hosts=4)


def fan(makers: int = 3, hints: Mapping[str, str] | None = None) -> Graph:
    """Tasks of which each makes a file for four readers, and one for a last task."""
    tasks = []
    for number in range(makers):
        files = (f"wide{number}", f"part{number}")
        tasks.append(Task(f"make-{number}", "x", (), files, stage="make", hints=hints or {}))
        tasks += [
            Task(f"read-{number}-{n}", "x", (files[0],), (f"r{number}{n}",), stage="read")
            for n in range(4)
        ]
    parts = tuple(f"part{number}" for number in range(makers))
    return graph_of("fan", "fan", [*tasks, Task("sum", "x", parts, ("total",), stage="sum")])


class Told:
    """Takes hints in place of a store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hints: dict[str, dict[str, str]] = {}
        self.problems: dict[str, OSError] = {}
        monkeypatch.setattr(tags_module, "tag", self._tag)

    def _tag(self, paths: list[Path], hints: Mapping[str, str]) -> dict[str, OSError]:
        self.hints |= {os.fspath(path): dict(hints) for path in paths}
        return self.problems


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What a store would be told."""
    return Told(monkeypatch)


def tags_of(
    graph: Graph,
    hints: dict[str, dict[str, str]],
    said: list[str] | None = None,
    taught: Container[Role] = (),
) -> Tags:
    say = ([] if said is None else said).append
    return Tags(Derivation(graph, CLUSTER), hints, Path("/w"), taught=taught, say=say)


def test_what_many_tasks_read_is_spread_once_it_is_known_to_be_large(told: Told) -> None:
    hints: dict[str, dict[str, str]] = {}
    tags = tags_of(fan(), hints)
    tags.before(["wide0", "part0"])
    assert hints == {}
    assert tags.made({"wide0": LARGE, "part0": LARGE}) == []
    assert told.hints == {"/w/wide0": {"pattern": "broadcast"}}
    # Those of the same rule are expected to be as large, and get their hints before they are made.
    tags.before(["wide1", "part1"])
    spread, gathered = {"pattern": "broadcast"}, {"place": "collocate:sum"}
    assert hints == {"wide0": spread, "wide1": spread, "part1": gathered}
    assert tags.made({"wide1": LARGE, "part1": LARGE}) == []
    assert list(told.hints) == ["/w/wide0"], "it has it already"


def test_what_is_made_small_gets_no_hint(told: Told) -> None:
    hints: dict[str, dict[str, str]] = {}
    said: list[str] = []
    tags = tags_of(fan(), hints, said)
    tags.before(["wide0", "part0"])
    tags.made({"wide0": 1000, "part0": 1000})
    tags.before(["wide1", "part1", "wide2", "part2"])
    assert hints == told.hints == {}
    assert said == [
        "make: wide* -> read: no hint: many tasks read it, and nobody knows yet how large it is",
        "make: part* -> sum: no hint: nobody knows yet how large it is",
        "make: wide* -> read: no hint: it takes no longer to reach 4 hosts one by one",
        "make: part* -> sum: no hint: it is moved sooner than a hint is set",
    ]


def test_what_tasks_say_or_earlier_runs_teach_stays(told: Told) -> None:
    graph = fan(hints={"pattern": "reuse"})
    hints = chosen_by(Derivation(graph, CLUSTER))
    before = {file: dict(found) for file, found in hints.items()}
    tags_of(graph, hints).made({"wide0": LARGE})
    assert hints == before
    role = Role("make", "wide*", ("read",))
    tags_of(fan(), {}, taught={role}).made({"wide0": LARGE})
    assert told.hints == {}
    hints = {"wide0": {"replicas": "2"}}
    tags_of(fan(), hints).made({"wide0": LARGE})
    assert hints == {"wide0": {"pattern": "broadcast", "replicas": "2"}}


def test_a_run_tags_a_file_before_its_readers_begin_and_tells_what_was_refused(
    told: Told, tmp_path: Path
) -> None:
    told.problems = {"wide0": PermissionError(1, "Operation not permitted")}
    graph = fan(1)
    began: list[str] = []

    def make(order: Order, host: str) -> Outcome:
        if order.task.startswith("read"):
            assert told.hints == {str(tmp_path / "wide0"): {"pattern": "broadcast"}}
        began.append(order.task)
        outcome = make_here(order, host)
        for path in order.outputs:
            os.truncate(path, LARGE)
        made = {path: stamp for path in order.outputs if (stamp := stamp_of(path))}
        return replace(outcome, outputs=made)

    hints: dict[str, dict[str, str]] = {}
    tags = Tags(Derivation(graph, CLUSTER), hints, tmp_path)
    settings = Settings(tmp_path, tmp_path / "run", blind, hints=hints, tags=tags)
    history = History(graph, tmp_path, tmp_path / "run", "blind")
    with Journal(tmp_path / "run/journal") as journal:
        plan = plan_of(graph, tmp_path, journal.made)
        crew = HereCrew({"a": 1, "b": 1}, make)
        Engine(
            graph, plan.lineage, set(plan.to_run), journal, crew, settings, history, Quiet()
        ).run()
    assert history.is_well
    assert len(began) == len(graph.tasks)
    (warning,) = history.warnings
    assert warning.startswith("hints that were refused: wide0: Operation not permitted")


def test_directories_that_are_still_to_be_made_have_the_hints_of_those_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    asked: list[str] = []

    def hints_on(path: str) -> dict[str, str]:
        asked.append(path)
        if not Path(path).is_dir():
            raise FileNotFoundError(path)
        return {"place": Path(path).name}

    monkeypatch.setattr(tags_module, "hints_on", hints_on)
    inherited = Inheritance(tmp_path)
    assert inherited("there/not/yet/a") == inherited("there/not/yet/b") == {"place": "there"}
    assert inherited("there/c") == {"place": "there"}
    assert inherited("d") == {"place": tmp_path.name}
    assert len(asked) == len(set(asked)), "each is asked once"


def test_a_dry_run_tells_by_rule_why_files_get_a_hint_or_none() -> None:
    derivation = Derivation(fan(), CLUSTER)
    derivation.made("wide0", LARGE)
    role = Role("sum", "total*", ())
    rows = derived_rows(derivation, {role: Lesson(role, 1, LARGE)})
    assert rows == [
        ("make: wide* -> read", "3", "pattern=broadcast", "tasks on up to 4 hosts read it"),
        ("make: part* -> sum", "3", "no hint", "nobody knows yet how large it is"),
        ("read: r* -> nobody", "12", "no hint", "no task reads it"),
    ]


def test_a_log_is_begun_anew_and_none_that_cannot_be_written_stops_a_run(tmp_path: Path) -> None:
    for text in ("a", "b"):
        say = new_log(tmp_path / "log")
        say(text)
        say("more")
    assert (tmp_path / "log").read_text() == "b\nmore\n"
    new_log(tmp_path / "none/log")("unheard")
