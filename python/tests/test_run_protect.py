"""Copies against recomputation: the cheaper of both, from measured costs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from intarsia.learn.measured import Measured, measured_in
from intarsia.learn.observed import File, Observed, Read, Role
from intarsia.run.attempts import History
from intarsia.run.graph import Graph, Task, graph_of
from intarsia.run.hints import role_in
from intarsia.run.page import write_page
from intarsia.run.protect import Choice, Risk, choices_of, told_of, with_copies
from run_graphs import random_graph

MEGA = 1_000_000
# A host is lost once in ten hours; a link carries 100 MB/s.
RISK = Risk(100e6, host_mtbf_h=10.0)


def chain(*took_s: float) -> Graph:
    """Tasks in a row, of which each reads what the one before it makes."""
    tasks = [
        Task(
            f"t{n}",
            "x",
            (f"f{n - 1}.{chr(96 + n)}",) if n else (),
            (f"f{n}.{chr(97 + n)}",),
            stage=f"s{n}",
        )
        for n in range(len(took_s))
    ]
    return graph_of("w", "w", tasks)


def measured(
    graph: Graph, took_s: list[float], size: float, needed_s: float
) -> dict[Role, Measured]:
    return {
        role_in(graph, file): Measured(size, took, needed_s)
        for file, took in zip(graph.producer, took_s, strict=True)
    }


@pytest.mark.parametrize(
    ("took_s", "size", "needed_s", "copies"),
    [
        (3600.0, 100 * MEGA, 600.0, 2),  # 1 s of a link against 3600 s · 1.7 %
        (1.0, 100 * MEGA, 600.0, 1),
        (3600.0, 100_000 * MEGA, 600.0, 1),
        (3600.0, 100 * MEGA, 1.0, 1),  # hardly ever needed
    ],
)
def test_what_is_cheaper_decides(took_s: float, size: float, needed_s: float, copies: int) -> None:
    graph = chain(took_s)
    (choice,) = choices_of(graph, measured(graph, [took_s], size, needed_s), RISK).values()
    assert choice.copies == copies
    assert choice.copy_s == size / 100e6
    assert choice.remake_s == took_s
    assert choice.chance == pytest.approx(needed_s / 36000, rel=0.02)
    assert ("copies are cheaper" in choice.why) == (copies == 2)


def test_a_chain_is_made_again_from_its_last_copy_on() -> None:
    took = [10.0] * 8
    graph = chain(*took)
    found = choices_of(graph, measured(graph, took, 100 * MEGA, 1800.0), RISK)
    copies = [found[file].copies for file in graph.producer]
    assert copies == [1, 1, 2, 1, 1, 2, 1, 1], "once what would be made again costs more than 1 s"
    assert [round(found[file].remake_s) for file in graph.producer] == [
        10,
        20,
        30,
        10,
        20,
        30,
        10,
        20,
    ]


def test_what_was_never_measured_is_made_again() -> None:
    graph = chain(1e9, 1e9)
    assert choices_of(graph, {}, RISK) == {}
    known = measured(graph, [1e6, 1e6], 1, 1e6)
    known.pop(role_in(graph, "f0.a"))
    assert list(choices_of(graph, known, RISK)) == ["f1.b"]


@pytest.mark.parametrize("seed", range(50))
def test_of_both_the_cheaper_is_chosen_for_all_that_a_task_makes(seed: int) -> None:
    chance = random.Random(seed)
    graph = random_graph(chance, 30)
    known = {
        role_in(graph, file): Measured(
            10 ** chance.uniform(3, 10), 10 ** chance.uniform(-1, 5), 10 ** chance.uniform(0, 5)
        )
        for file in graph.producer
    }
    risk = Risk(10 ** chance.uniform(7, 10), 10 ** chance.uniform(0, 4))
    found = choices_of(graph, known, risk)
    total_s = sum(
        max(known[role_in(graph, file)].took_s for file in task.outputs)
        for task in graph.tasks.values()
    )
    for task in graph.tasks.values():
        (choice,) = {(one.copies, one.copy_s) for one in map(found.get, task.outputs) if one}
        one = found[task.outputs[0]]
        assert (choice[0] == 2) == (one.copy_s < one.chance * one.remake_s)
        assert one.remake_s <= total_s
        assert one.remake_s >= max(known[role_in(graph, file)].took_s for file in task.outputs)
    told = told_of(graph, found)
    assert sum(one["files"] for one in told) == len(graph.producer)
    assert all(one["why"] for one in told)


def test_copies_leave_hints_alone_that_say_otherwise() -> None:
    copies = Choice(2, 1, 1.0, 9.0, 0.5)
    hints = {
        "mine": {"replicas": "3"},
        "striped": {"place": "stripe:4"},
        "strict": {"integrity": "strict"},
        "near": {"place": "local"},
    }
    chosen = dict.fromkeys([*hints, "new"], copies) | {"again": Choice(1, 1, 1.0, 9.0, 0.1)}
    assert with_copies(hints, chosen) == {
        "mine": {"replicas": "3"},
        "striped": {"place": "stripe:4"},
        "strict": {"integrity": "strict"},
        "near": {"place": "local", "replicas": "2"},
        "new": {"replicas": "2"},
    }


def test_costs_are_those_that_an_earlier_run_measured() -> None:
    read = Read("r", "read", "a", 12.0, 30.0)
    files = (
        File("a.x", 10, "m1", "make", made_s=10.0, reads=(read,), took_s=4.0),
        File("b.x", 30, "m2", "make", made_s=20.0, reads=(read,), took_s=6.0),
        File("c.x", 1, "m3", "make", made_s=None, reads=(read,)),
        File("end", 5, "r", "read", made_s=30.0, took_s=18.0),
        File("late", 5, "q", "other", made_s=50.0, took_s=1.0),
    )
    found = measured_in([Observed("r", files)])
    assert found[Role("make", "*.x", ("read",))] == Measured(20, 5.0, 15.0)
    assert found[Role("read", "end*", ())].needed_s == 20.0, "a result is needed to the end"


def test_the_report_says_why(tmp_path: Path) -> None:
    graph = chain(3600.0, 0.1)
    history = History(graph, tmp_path, tmp_path, "local")
    found = choices_of(graph, measured(graph, [3600.0, 0.1], MEGA, 600.0), RISK)
    history.protection = told_of(graph, found)
    page = write_page(tmp_path / "page", history).read_text()
    assert "Copies or recomputation" in page
    assert "copies are cheaper" in page
    assert "making them again is cheaper" in page
