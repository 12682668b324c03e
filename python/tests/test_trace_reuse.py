"""Workloads of which one stage was recorded anew, and workloads that are read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from intarsia.trace import __main__ as command
from intarsia.trace.errors import TraceError
from intarsia.trace.native import read_native
from intarsia.trace.reuse import with_new_stages
from intarsia.trace.workload import Operation, Task, Workload

STAGES = {"make": 1.0, "sort": 2.0, "merge": 3.0}


def task(name: str, stage: str, reads: list[str], compute_s: float, writes: dict[str, int]) -> Task:
    operations = []
    for file in reads:
        operations += [Operation("open", file), Operation("read", file, 0, 10)]
    operations.append(Operation("compute", seconds=compute_s))
    operations += [Operation("write", file, 0, size) for file, size in writes.items()]
    return Task(name, stage, operations)


def recorded() -> Workload:
    """Two chains of make, sort, and a merge of both."""
    tasks = []
    for n in range(2):
        tasks.append(task(f"make-{n}", "make", ["in"], 1.0, {f"raw-{n}": 10}))
        tasks.append(task(f"sort-{n}", "sort", [f"raw-{n}"], 2.0, {f"out-{n}": 10}))
    tasks.append(task("merge-1", "merge", ["out-0", "out-1"], 3.0, {"all": 20}))
    files = {"in": 10, "all": 20}
    files |= {f"{name}-{n}": 10 for name in ("raw", "out") for n in range(2)}
    return Workload("flow", tasks, files, hints={"all": {"replicas": "2"}})


def sorted_anew(size: int = 10, numbers: tuple[int, ...] = (0, 1)) -> Workload:
    tasks = [task(f"sort-{n}", "sort", [f"raw-{n}"], 0.5, {f"out-{n}": size}) for n in numbers]
    files = {f"raw-{n}": 10 for n in numbers} | {f"out-{n}": size for n in numbers}
    return Workload("new", tasks, files)


def test_one_stage_is_new_and_all_else_is_as_it_was() -> None:
    made = with_new_stages(recorded(), "log", sorted_anew(), ["sort"])
    made.check("log")
    by_name = {one.name: one for one in made.tasks}
    assert [one.name for one in made.tasks] == ["make-0", "sort-0", "sort-1", "make-1", "merge-1"]
    before = {one.name: one for one in recorded().tasks}
    for name, one in by_name.items():
        if one.stage == "sort":
            assert one.compute_s == 0.5
        else:
            assert one.operations == before[name].operations
    assert made.parents() == recorded().parents()
    assert (made.files, made.hints) == (recorded().files, recorded().hints)


def test_a_stage_that_is_recorded_as_it_was_changes_nothing() -> None:
    for stage in STAGES:
        of_stage = [one for one in recorded().tasks if one.stage == stage]
        again = Workload("again", of_stage, dict(recorded().files))
        made = with_new_stages(recorded(), "log", again, [stage])
        assert sorted(made.native()["tasks"], key=str) == sorted(
            recorded().native()["tasks"], key=str
        )
        assert made.files == recorded().files


def test_more_tasks_may_do_the_work_of_a_stage() -> None:
    new = sorted_anew()
    new.tasks.insert(1, task("merge-1", "sort", ["raw-0"], 0.1, {"log": 5}))
    new.files["log"] = 5
    made = with_new_stages(recorded(), "log", new, [])
    # Its name was taken by a task that stays.
    assert [one.name for one in made.tasks if one.stage == "sort"] == [
        "sort-0",
        "merge-1'",
        "sort-1",
    ]
    assert made.files["log"] == 5


def test_versions_of_files_are_told_by_what_is_done_to_them() -> None:
    known = recorded()
    known.tasks.append(task("again", "again", ["all"], 1.0, {"all@2": 20}))
    known.tasks.append(task("show", "show", ["all@2"], 1.0, {}))
    known.files["all@2"] = 20
    # Alone the second writer is seen as the first one.
    new = Workload("new", [task("again", "again", ["all"], 9.0, {"all@2": 20})], {})
    new.files = {"all": 20, "all@2": 20}
    made = with_new_stages(known, "log", new, ["again"])
    assert made.parents()["again"] == {"merge-1"}
    assert made.parents()["show"] == {"again"}
    alone = Workload("new", [task("show", "show", ["all"], 9.0, {})], {"all": 20})
    assert with_new_stages(known, "log", alone, ["show"]).parents()["show"] == {"again"}


def test_waiting_for_tasks_rather_than_files_is_carried_over() -> None:
    known = recorded()
    known.tasks[1].after = ("make-1",)
    known.tasks[4].after = ("sort-1",)
    new = sorted_anew()
    new.tasks[1].name = "other"
    made = {one.name: one for one in with_new_stages(known, "log", new, ["sort"]).tasks}
    assert made["sort-0"].after == ("make-1",)
    # Nobody knows whom this one stands for: it waits for what any of them waited for.
    assert made["other"].after == ("make-1",)
    assert set(made["merge-1"].after) == {"sort-0", "other"}


@pytest.mark.parametrize(
    ("new", "stages", "said"),
    [
        (sorted_anew(), ["merge"], "new record has no stage 'merge'"),
        (sorted_anew(), ["sorts"], "is reused has no stage 'sorts'"),
        (sorted_anew(size=11), [], r"'out-0' has 11 bytes now, and had 10.*|.*anew as well: merge"),
        (sorted_anew(numbers=(0,)), [], "nobody writes 'out-1' any more"),
    ],
)
def test_what_does_not_fit_is_refused(new: Workload, stages: list[str], said: str) -> None:
    with pytest.raises(TraceError, match=said):
        with_new_stages(recorded(), "log", new, stages)


def test_more_of_a_file_than_its_writer_wrote_is_refused() -> None:
    new = sorted_anew()
    new.files["raw-0"] = 12
    with pytest.raises(TraceError, match="raw-0' is read up to byte 12, and 10 were written"):
        with_new_stages(recorded(), "log", new, [])


def test_a_workload_that_is_read_back_is_the_same() -> None:
    said = recorded().native()
    assert read_native("w.json", said).native() == said


def test_short_forms_hints_and_overheads_are_read(tmp_path: Path) -> None:
    short = {
        "format": "intarsia-workload",
        "version": 1,
        "files": [{"name": "a", "size_bytes": 7}, {"name": "b", "size_bytes": 9}],
        "tasks": [
            {"name": "t", "reads": ["a"], "compute_seconds": 2, "writes": ["b"], "slots": 2},
            {"name": "u", "after": ["t"], "overhead_seconds": 0.2, "operations": [{"read": "b"}]},
        ],
    }
    t, u = read_native("w.json", short).tasks
    assert (t.files("read"), t.compute_s, t.files("write"), t.slots) == ({"a": 7}, 2.0, {"b": 9}, 2)
    assert (u.files("read"), u.after, u.overhead_s, u.stage) == ({"b": 9}, ("t",), 0.2, "u")
    (tmp_path / "w.json").write_text(json.dumps(short))
    assert command.main([str(tmp_path / "w.json"), "--as", "wfformat"]) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "field 'version': only version 1"),
        ({"files": {}}, "field 'files': a list"),
        ({"files": [{"name": "a"}]}, r"field 'files\[0\].size_bytes': is missing"),
        ({"files": [{"name": "a", "size_bytes": -1}]}, "-1 is no number of 0 or more"),
        ({"tasks": [{"name": "t", "reads": ["x"]}]}, "no file 'x' is described"),
        ({"tasks": [{"name": "t", "operations": [{"reed": "a"}]}]}, "is no operation"),
        ({"tasks": [{"name": 3}]}, "3 is no text"),
    ],
)
def test_bad_workloads_are_refused_by_field(change: dict[str, Any], said: str) -> None:
    document = {"format": "intarsia-workload", "version": 1, "files": [], "tasks": []} | change
    with pytest.raises(TraceError, match=said):
        read_native("w.json", document)


def test_the_command_joins_and_says_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, out = tmp_path / "old.json", tmp_path / "new.json", tmp_path / "out.json"
    old.write_text(json.dumps(recorded().native()))
    new.write_text(json.dumps(sorted_anew().native()))
    assert command.main([str(new), "--reuse", str(old), "--out", str(out)]) == 0
    assert "as recorded now: sort; 2 stages as they were" in capsys.readouterr().err
    made = read_native("out", json.loads(out.read_text()))
    assert sum(one.compute_s for one in made.tasks) == 2 * 1.0 + 2 * 0.5 + 3.0
    old.write_text("{}")
    assert command.main([str(new), "--reuse", str(old)]) == 1
    assert "is no workload" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main([str(new), "--stages", "sort"])
