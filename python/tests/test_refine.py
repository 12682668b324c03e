"""Predicted against actual: comparisons, bounded corrections, refined profiles, advised runs."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from intarsia.refine import __main__ as command
from intarsia.refine.compare import Comparison, Pair, Ran, compare
from intarsia.refine.corrections import BOUNDS, correction
from intarsia.refine.engine import EngineCost, engine_cost, with_engine
from intarsia.refine.profile import RefineError, base_of, refined
from intarsia.run.advised import (
    Advised,
    check_workflow,
    follow,
    hints_for,
    pattern_of,
    read_advice,
)
from intarsia.run.graph import Graph, GraphError, Task, graph_of

PROFILE: dict[str, Any] = {
    "format": "intarsia-profile",
    "version": 1,
    "name": "lab",
    "hosts": 4,
    "host": {"slots": 2, "in_bytes_per_second": 1e8, "out_bytes_per_second": 1e8},
    "unlike_hosts": [{"numbers": [3], "speed": 2.0}],
    "network": {"latency_seconds": 1e-4, "loopback_bytes_per_second": 4e9},
    "manager": {"open_seconds": {"samples": [1e-4, 3e-4]}, "commit_seconds": 2e-4},
    "tiers": [
        {
            "class": "ssd",
            "capacity_bytes": 10**9,
            "read": {"request_seconds": 1e-4, "bytes_per_second": 5e8},
            "write": {"request_seconds": 1e-4, "bytes_per_second": 3e8},
        }
    ],
}


def stage(name: str, tasks: int, start: float, end: float, compute: float, io: float) -> Any:
    return {
        "name": name,
        "tasks": tasks,
        "start_seconds": start,
        "end_seconds": end,
        "compute_seconds": compute,
        "read_seconds": io / 2,
        "write_seconds": io / 2,
        "metadata_seconds": 0.0,
    }


def prediction(*stages: Any) -> Any:
    makespan = max(one["end_seconds"] for one in stages)
    return {"makespan_seconds": {"mean": makespan}, "first_run": {"stages": list(stages)}}


def comparison(
    name: str = "a", work: dict[str, tuple[float, float]] | None = None, **more: Any
) -> dict[str, Any]:
    pairs = work or {"compute": (10.0, 20.0), "io": (1.0, 3.0)}
    held = Comparison(
        Pair("makespan", 1, 2), (), {kind: Pair(kind, *pair) for kind, pair in pairs.items()}, ()
    )
    return {
        "format": "intarsia-comparison",
        "version": 1,
        "id": name,
        "ended_at": "2026-01-01T00:00:00+00:00",
        "host": "n1",
        "hosts": 2,
        "tasks": 5,
        "moved_bytes": 1000,
        "placement": "local",
        "profile": {"name": "lab", "factors": {}},
        "comparison": held.native(),
    } | more


def test_stages_are_compared_by_name_and_work_by_kind() -> None:
    foretold = prediction(
        stage("make", 2, 0, 1, 1.6, 0.4),
        stage("use", 1, 1, 3, 1.5, 0.5),
        stage("gone", 1, 0, 0, 0, 0),
    )
    ran = [
        Ran("make", 10, 12, 1.6),
        Ran("make", 10, 11, 0.8),
        Ran("use", 12, 16, 3.0),
        Ran("extra", 9, 10, 0.5),
    ]
    held = compare(foretold, ran)
    assert held.makespan == Pair("makespan", 3, 7)
    assert held.stages == (Pair("make", 1, 2, (2, 2)), Pair("use", 2, 4, (1, 1)))
    assert held.unmatched == ("extra", "gone")
    assert held.work["compute"].actual_s == pytest.approx(5.4)
    assert held.work["io"].actual_s == pytest.approx(1.6)
    assert held.stages[0].error == 0.5
    assert len(held.rows()) == 5


def test_what_is_too_small_to_tell_is_left_out() -> None:
    foretold = prediction(stage("make", 100, 0, 1, 100.0, 0.1))
    held = compare(foretold, [Ran("make", 0, 1, 1.0)] * 100)
    assert set(held.work) == {"compute"}
    assert Pair("x", 0, 0).error is None
    assert Pair("x", 0, 0).ratio is None


def test_fewer_tasks_than_foretold_are_held_against_their_share() -> None:
    held = compare(prediction(stage("make", 4, 0, 1, 4.0, 0.0)), [Ran("make", 0, 1, 1.0)])
    assert held.work["compute"] == Pair("compute", 1.0, 1.0)


@pytest.mark.parametrize(
    ("ratios", "factor"),
    [([2.0], 2**0.5), ([2.0] * 7, 2 ** (7 / 8)), ([9.0] * 99, BOUNDS[1]), ([0.11] * 99, BOUNDS[0])],
)
def test_corrections_are_shrunk_and_bounded(ratios: list[float], factor: float) -> None:
    found = correction(ratios)
    assert found is not None
    assert found.factor == pytest.approx(factor)


def test_what_is_far_off_is_left_out_and_counted() -> None:
    found = correction([1.0, 100.0, math.inf, 0.0])
    assert found is not None
    assert (found.factor, found.runs, found.left_out) == (1.0, 1, 1)
    assert correction([]) is None


def test_a_profile_is_corrected_where_it_says_times_and_rates() -> None:
    made, found = refined(PROFILE, [comparison()])
    compute, io = found["compute"].factor, found["io"].factor
    assert [compute, io] == pytest.approx([2**0.5, 3**0.5])
    assert made["host"]["speed"] == pytest.approx(1 / compute)
    assert made["unlike_hosts"][0]["speed"] == pytest.approx(2 / compute)
    assert made["host"]["in_bytes_per_second"] == pytest.approx(1e8 / io)
    assert made["manager"]["open_seconds"]["samples"] == pytest.approx([1e-4 * io, 3e-4 * io])
    assert made["tiers"][0]["read"]["request_seconds"] == pytest.approx(1e-4 * io)
    assert made["tiers"][0]["capacity_bytes"] == 10**9
    kept = made["measured"]["refinement"]
    assert kept["covers"] == {
        "runs": 1,
        "hosts": [2, 2],
        "tasks": [5, 5],
        "moved_bytes": [1000, 1000],
        "placements": ["local"],
    }
    assert kept["runs"][0]["host"] == "n1"


def test_refining_again_goes_on_from_the_profile_without_corrections() -> None:
    once, _ = refined(PROFILE, [comparison("a")])
    again, _ = refined(once, [comparison("a")])
    assert json.dumps(again["measured"]) == json.dumps(once["measured"]), "a run counts once"
    factors = once["measured"]["refinement"]["factors"]
    # Foretold exactly by the refined profile: the whole ratio to the first profile is known.
    exact = comparison("b", {"compute": (1.0, 1.0)}, profile={"name": "lab", "factors": factors})
    twice, found = refined(once, [exact])
    assert found["compute"].factor == pytest.approx((2 * factors["compute"]) ** (1 / 3))
    base, _ = base_of(twice)
    assert base["host"]["in_bytes_per_second"] == pytest.approx(1e8)
    assert base["unlike_hosts"][0]["speed"] == pytest.approx(2.0)
    with pytest.raises(RefineError, match="predicted with profile 'other'"):
        refined(PROFILE, [comparison("c", profile={"name": "other", "factors": {}})])


def held(name: str, predicted_s: float, actual_s: float, **factors: float) -> dict[str, Any]:
    """A run that computes alone, foretold with corrections in force."""
    document = comparison(name, {"compute": (predicted_s, actual_s)})
    document["profile"] = {"name": "lab", "factors": factors}
    document["comparison"]["makespan"] |= {"predicted_s": predicted_s, "actual_s": actual_s}
    return document


def test_a_run_is_held_against_the_profile_that_the_others_corrected() -> None:
    def ratios(*runs: dict[str, Any]) -> list[float]:
        made, _ = refined(PROFILE, runs)
        return [run["makespan_ratio"] for run in made["measured"]["refinement"]["runs"]]

    assert ratios(held("a", 10.0, 20.0)) == [2.0], "nobody else has corrected anything"
    # The other run alone moves the profile half the way.
    assert ratios(held("a", 10.0, 20.0), held("b", 1.0, 2.0)) == pytest.approx([2**0.5] * 2)
    # All of seven runs take twice as long: each is foretold by what six say.
    seven = [held(str(number), 5.0, 10.0) for number in range(7)]
    assert ratios(*seven) == pytest.approx([2 / 2 ** (6 / 7)] * 7)
    # Foretold exactly, by a correction that was in force then and which the other run bears out.
    late = held("b", 14.14, 14.14, compute=2**0.5)
    assert ratios(held("a", 10.0, 20.0), late)[1] == pytest.approx(1.0)


def test_runs_of_earlier_releases_count_as_they_ended() -> None:
    made, _ = refined(PROFILE, [held("a", 10.0, 20.0)])
    old = made["measured"]["refinement"]["runs"][0]
    for field in ("in_force", "makespan_ratio"):
        del old[field]
    again, _ = refined(made, [held("b", 10.0, 20.0)])
    assert [run["makespan_ratio"] for run in again["measured"]["refinement"]["runs"]] == [
        2.0,
        pytest.approx(2**0.5),
    ]
    del old["compared"]["makespan"]
    again, _ = refined(made, [])
    assert again["measured"]["refinement"]["runs"][0]["makespan_ratio"] is None


def test_a_run_says_whether_it_lies_where_it_was_foretold_to_lie() -> None:
    foretold = prediction(stage("make", 1, 0, 2, 2.0, 0.0))
    assert compare(foretold, [Ran("make", 0, 2, 2.0)]).verdict() == ""
    foretold["makespan_seconds"]["interval"] = {"low": 1.5, "high": 2.5}
    for ended_s, said in [(2.4, "lies in its"), (2.6, "does not lie in its")]:
        held_against = compare(foretold, [Ran("make", 0, ended_s, 2.0)])
        assert said in held_against.verdict()
        assert held_against.native()["interval"] == [1.5, 2.5]


def files_of_the_command(place: Path) -> tuple[Path, Path, Path]:
    """A profile, a new run directory, and where the new profile is to go."""
    profile, run = place / "p.json", place / "run"
    profile.write_text(json.dumps(PROFILE))
    run.mkdir()
    return profile, run, place / "new.json"


def test_the_command_writes_a_profile_and_refuses_what_it_cannot_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, run, out = files_of_the_command(tmp_path)
    (run / "predicted.json").write_text(json.dumps(comparison()))
    words = [str(profile), str(run), "--out", str(out)]
    assert command.main(words) == 0
    assert "1.414 times as long" in capsys.readouterr().out
    assert json.loads(out.read_text())["name"] == "lab"
    for bad, said in [
        ("{", "is no JSON"),
        ("{}", "field 'format' is not 'intarsia-comparison'"),
        (json.dumps(comparison() | {"version": 9}), "field 'version' is 9"),
        (json.dumps({"format": "intarsia-comparison", "version": 1}), "field 'comparison' is"),
    ]:
        (run / "predicted.json").write_text(bad)
        assert command.main(words) == 1
        assert said in capsys.readouterr().err


CONFIGURATION = {
    "hosts": 3,
    "storage_hosts": 1,
    "managers": 1,
    "managers_apart": False,
    "placement": "round-robin",
    "chunk_bytes": 1 << 20,
    "stripe_width": 8,
    "copies": 1,
    "scheduler": "location",
}


def advice(**more: Any) -> dict[str, Any]:
    return {
        "kind": "advice",
        "fastest": 0,
        "points": [{"configuration": CONFIGURATION | more}],
        "basis": {
            "workload": {"name": "w", "tasks": 1, "path": "/w.json", "blake3": "x"},
            "profile": {"name": "lab", "source": "assumed", "path": "/p.json"},
        },
    }


def graph() -> Graph:
    task = Task("t", "true", (), ("out",))
    return graph_of("w.json", "w", [task])


def test_an_advice_chooses_hosts_hints_and_scheduler() -> None:
    from intarsia.run.__main__ import parser
    from intarsia.run.choices import Choices

    advised = Advised(Path("a.json"), advice())
    assert advised.app_hosts == 2
    given = parser().parse_args(["w.json", "--hosts", "a,b,c,d", "--up", "/mnt/x"])
    said: list[str] = []
    chosen = follow(advised, Choices(**vars(given)), said.append)
    assert chosen.hosts == ("a", "b", "c")
    assert (chosen.schedule, chosen.patience_s, chosen.hints) == ("local", 0.0, "own")
    assert chosen.up_options == ("--advice", "a.json")
    assert any("first 2 hosts only" in one for one in said)
    assert hints_for(advised, graph(), 2)["out"] == {"place": "stripe:2", "chunk": "1048576"}
    given = parser().parse_args(
        ["w.json", "--hosts", "a,b,c", "--schedule", "wow", "--hints", "none"]
    )
    said.clear()
    chosen = follow(advised, Choices(**vars(given)), said.append)
    assert (chosen.schedule, chosen.hints) == ("wow", "none")
    assert sum("is given" in one for one in said) == 2
    for scheduler in ("local", "wow", "workqueue"):
        advised = Advised(Path("a.json"), advice(scheduler=scheduler))
        given = parser().parse_args(["w.json", "--hosts", "a,b,c"])
        chosen = follow(advised, Choices(**vars(given)), said.append)
        assert (chosen.schedule, chosen.patience_s) == (scheduler, None)
    given = parser().parse_args(["w.json", "--hosts", "a,b"])
    with pytest.raises(GraphError, match="is for 3 hosts, not 2"):
        follow(advised, Choices(**vars(given)), said.append)


def test_an_advice_tells_files_by_how_tasks_use_them() -> None:
    from intarsia.run.__main__ import parser
    from intarsia.run.choices import Choices

    tasks = [
        Task("index", "true", ("genome",), ("idx",)),
        *(Task(f"align{n}", "true", ("idx", "table"), (f"part{n}",)) for n in range(2)),
        Task("sum", "true", ("part0", "part1"), ("out",)),
        Task("tell", "true", ("out",), ("log",)),
    ]
    made = graph_of("w.json", "w", tasks)
    patterns = {
        "broadcast": {"pattern": "broadcast", "place": "local"},
        "reduce": {"place": "collocate:{reader}"},
        "once": {"cache": "none"},
    }
    advised = Advised(Path("a.json"), advice(tier="ssd", patterns=patterns, placement="local"))
    told = hints_for(advised, made, 3)
    group = told["part0"]["place"]
    assert group == "collocate:sum"
    assert told == {
        "idx": {"tier": "ssd", "pattern": "broadcast", "place": "local"},
        "table": {"pattern": "broadcast"},
        "part0": {"tier": "ssd", "place": group},
        "part1": {"tier": "ssd", "place": group},
        "out": {"tier": "ssd"},
        "log": {"tier": "ssd", "cache": "none"},
        "genome": {"cache": "none"},
    }
    known = [pattern_of(made, file) for file in ("out", "log", "genome")]
    assert known == ["pipeline", "once", "once"]
    given = parser().parse_args(["w.json", "--hosts", "a,b,c"])
    said: list[str] = []
    follow(advised, Choices(**vars(given)), said.append)
    text = "\n".join(said)
    assert "applied      outputs in tiers of class ssd" in text
    assert "applied      place=collocate:{reader} for reduce files" in text


def test_an_advice_brings_the_rate_of_links_that_its_profile_has(tmp_path: Path) -> None:
    from intarsia.run.__main__ import parser
    from intarsia.run.choices import Choices

    document = advice()
    document["basis"]["profile"]["path"] = str(tmp_path / "p.json")
    host = {"in_bytes_per_second": 11.9e6, "out_bytes_per_second": 25e6}
    (tmp_path / "p.json").write_text(json.dumps({"host": host}))
    words = ["w.json", "--hosts", "a,b,c"]
    said: list[str] = []
    given = parser().parse_args(words)
    chosen = follow(Advised(Path("a.json"), document), Choices(**vars(given)), said.append)
    assert chosen.link == 11.9e6
    assert any("--link 95mbit" in one for one in said)
    given = parser().parse_args([*words, "--link", "1gbit"])
    chosen = follow(Advised(Path("a.json"), document), Choices(**vars(given)), said.append)
    assert chosen.link == 119e6
    given = parser().parse_args(words)
    gone = Advised(Path("a.json"), advice())
    assert follow(gone, Choices(**vars(given)), said.append).link == 119e6


def test_an_advice_of_another_workload_is_refused(tmp_path: Path) -> None:
    other = copy.deepcopy(advice())
    other["basis"]["workload"]["tasks"] = 7
    with pytest.raises(GraphError, match="is an advice for another workload: 'w' with 7 tasks"):
        check_workflow(Advised(Path("a.json"), other), Path("flow.json"), graph())
    check_workflow(Advised(Path("a.json"), advice()), Path("flow.json"), graph())
    check_workflow(Advised(Path("a.json"), other), Path("/w.json"), graph())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no advice"),
        ("[]", "is no advice"),
        ("{}", "is no advice: 'kind' is missing"),
        (json.dumps(advice() | {"kind": "prediction"}), "field 'kind' is 'prediction'"),
        (json.dumps(advice() | {"fastest": 5}), "is no advice"),
        (json.dumps(advice() | {"basis": {}}), "'workload' is missing"),
    ],
)
def test_what_is_no_advice_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(GraphError, match=said):
        read_advice(path)


def engine(name: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "format": "intarsia-engine",
        "version": 1,
        "id": name,
        "ended_at": f"2026-01-0{len(name)}T00:00:00+00:00",
        "host": "n1",
        "hosts": 2,
        "tasks": 10,
        "replay": False,
        "task_seconds": 0.002,
        "start_seconds": 0.004,
    } | more


def test_what_lies_between_tasks_is_the_engine_s_and_not_counted_as_reading() -> None:
    foretold = prediction(stage("s", 1, 0.0, 10.0, 5.0, 5.0))
    held = compare(foretold, [Ran("s", 0.0, 20.0, 5.0, 15.0)])
    assert (held.makespan.actual_s, held.work["io"].actual_s) == (20.0, 10.0)


def test_the_cost_of_a_task_is_counted_once() -> None:
    # Ten tasks in turn on one slot: 1 s of work, 2 s of messages within 5 s out of its hands each.
    cost = engine_cost(10.0, 20.0, [5.0] * 10)
    assert cost == EngineCost(3.0, 3.0, 10)
    assert 10 * (cost.task_s + cost.start_s) == 10.0 + 10 * 5.0
    # What it takes where nobody else wants the processors: 0.4 s of one, 3 s of two tasks alone.
    shared = engine_cost(10.0, 20.0, [5.0] * 10, processor_s=4.0, alone_s=[4.0, 6.0])
    assert shared == EngineCost(3.0, 3.0, 10, 0.4, 3.0, 2)
    # What some waited for and others not adds up to the same.
    assert engine_cost(10.0, 20.0, [2.0] * 5 + [8.0] * 5) == cost
    assert engine_cost(1.0, 1.0, []) is None


def test_a_profile_has_the_engine_of_all_runs_once_each() -> None:
    made, cost = with_engine(PROFILE, [])
    assert (made, cost) == (PROFILE, None)
    made, cost = with_engine(PROFILE, [engine()])
    assert cost == EngineCost(0.002, 0.004, 10)
    assert made["engine"]["source"] == "measured"
    assert made["engine"]["note"] == (
        "10 tasks of 1 run of intarsia run, on n1, 2026-01-01T00:00:00+00:00"
    )
    assert {key: made[key] for key in PROFILE} == PROFILE
    longer = engine("bb", tasks=30, task_seconds=0.006, start_seconds=0.0)
    again, cost = with_engine(made, [engine(), longer])
    assert cost is not None
    assert cost.tasks == 40
    assert again["engine"]["task_seconds"] == pytest.approx(0.005)
    assert again["engine"]["start_seconds"] == pytest.approx(0.001)
    assert "start_alone_seconds" not in again["engine"]
    # Those that tell what they took alone count by the tasks that were alone; a replay may sleep.
    alone = engine("c", start_alone_seconds=0.003, alone_tasks=1, task_processor_seconds=0.001)
    others = engine("dd", start_alone_seconds=0.001, alone_tasks=3, computes="slept")
    shared, _ = with_engine(PROFILE, [alone, others, engine()])
    assert shared["engine"]["start_alone_seconds"] == pytest.approx(0.0015)
    assert shared["engine"]["task_processor_seconds"] == 0.001
    assert "computes" not in shared["engine"]
    assert with_engine(PROFILE, [others])[0]["engine"]["computes"] == "slept"
    # Corrections of other numbers leave it alone.
    refined_too, _ = refined(again, [comparison()])
    assert refined_too["engine"] == again["engine"]
    assert base_of(refined_too)[0]["engine"] == again["engine"]


def test_any_run_tells_the_command_what_its_engine_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, run, out = files_of_the_command(tmp_path)
    words = [str(profile), str(run), "--out", str(out)]
    assert command.main(words) == 1
    assert "has neither predicted.json nor engine.json" in capsys.readouterr().err
    (run / "engine.json").write_text(json.dumps(engine()))
    assert command.main(words) == 0
    told = capsys.readouterr().out
    assert told == "engine: 2.00 ms a task one after the other, 4.00 ms to start it, by 10 tasks\n"
    assert json.loads(out.read_text())["engine"]["start_seconds"] == 0.004
    (run / "predicted.json").write_text(json.dumps(comparison()))
    assert command.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["engine"]["task_seconds"], set(told["factors"])) == (0.002, {"compute", "io"})
    (run / "engine.json").write_text(json.dumps({"format": "intarsia-engine", "version": 1}))
    assert command.main(words) == 1
    assert "engine.json: field 'ended_at' is missing" in capsys.readouterr().err
