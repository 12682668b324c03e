"""What is read of a workflow, and what is said of one that cannot be run."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from intarsia.run.commands import read_commands
from intarsia.run.graph import GraphError
from intarsia.run.hints import Cluster, hints_of
from intarsia.run.plan import read_workflow, require_inputs
from intarsia.run.replay import Replay, dealt
from intarsia.run.wfformat import file_name, read_wfformat
from run_graphs import random_graph

ROOT = Path(__file__).resolve().parents[2]

GOOD = """
name: words
tasks:
  merge: {command: cat a b > c, inputs: [a, ./b], outputs: [c], cores: 2, retries: 1, timeout_s: 3}
  make-1: {command: echo > a, inputs: [text], outputs: [a], hints: {tier: memory}}
  make-2: {command: echo > b, inputs: [text], outputs: [b], after: [make-1], stage: other}
"""


def test_a_graph_of_commands_is_read_into_an_order_in_which_it_can_run() -> None:
    graph = read_commands("w.yaml", GOOD)
    assert graph.name == "words"
    assert list(graph.tasks) == ["make-1", "make-2", "merge"]
    assert graph.sources == ("text",)
    assert graph.results == ("c",)
    assert graph.parents["merge"] == {"make-1", "make-2"}
    merge = graph.tasks["merge"]
    assert (merge.cores, merge.retries, merge.timeout_s, merge.stage) == (2, 1, 3.0, "merge")
    assert (graph.tasks["make-1"].stage, graph.tasks["make-2"].stage) == ("make", "other")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks: [", "w.yaml: line 1, column 9: "),
        ("- a", "w.yaml: a mapping with the key 'tasks' is expected"),
        ("tasks: {}", "w.yaml: field 'tasks': a mapping of names to tasks"),
        ("tsks: {}", "w.yaml: unknown field 'tsks'; there are name, tasks"),
        ("tasks: {a: {}}", "task a: field 'command'"),
        ("tasks: {a: {command: x, input: [f]}}", "task a: unknown field 'input'; there are after,"),
        ("tasks: {a: {command: x, outputs: [7]}}", "task a: field 'outputs': a list of words"),
        ("tasks: {a: {command: x, outputs: [d/]}}", "task a: field 'outputs': 'd/' is no name"),
        ("tasks: {a: {command: x, inputs: [f, ./f]}}", "field 'inputs': f is there twice"),
        ("tasks: {a: {command: x, cores: 0}}", "task a: field 'cores': a whole number from 1"),
        ("tasks: {a: {command: x, retries: true}}", "field 'retries': a whole number from 0"),
        ("tasks: {a: {command: x, timeout_s: -1}}", "field 'timeout_s': seconds above 0"),
        ("tasks: {a: {command: x, hints: [k]}}", "task a: field 'hints': a mapping"),
        ("tasks: {a b: {command: x}}", "task a b: its name may have letters"),
        ("tasks:\n  a: {command: x}\n  a: {command: y}", "line 3, column 3: the key 'a' is there"),
        (
            f"tasks: {{a: {{command: {'x' * 131_072}}}}}",
            "it has more than 131071 bytes; have it in",
        ),
        (
            "tasks: {a: {command: x, outputs: [f]}, b: {command: x, outputs: [f/g/h]}}",
            "task b: field 'outputs': f/g/h lies in f, which task a makes as a file",
        ),
        ("tasks: {a: {command: x}, [a, b]: {}}", "line 1, column 26: a word is expected as a key"),
        (f"tasks: {'[' * 3000}{']' * 3000}", "w.yaml: is nested too deeply"),
        (r'tasks: {a: {command: "x \0"}}', "field 'command': it has letters that no command may"),
        (r'tasks: {a: {command: x, inputs: ["\ud800"]}}', "field 'inputs': '\\ud800' is no name"),
        ("tasks: {a: {command: x, after: [z]}}", "task a: field 'after': there is no task 'z'"),
        ("tasks: {a: {command: x, inputs: [f], outputs: [f]}}", "task a: field 'outputs': f is am"),
        (
            "tasks: {a: {command: x, outputs: [f]}, b: {command: x, outputs: [f]}}",
            "task b: field 'outputs': f is made by task a too",
        ),
        (
            "tasks: {a: {command: x, inputs: [g], outputs: [f]},"
            " b: {command: x, inputs: [f], outputs: [g]}}",
            "w.yaml: tasks wait for each other: ",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_task_and_field(text: str, said: str) -> None:
    with pytest.raises(GraphError) as caught:
        read_commands("w.yaml", text)
    assert said in str(caught.value)


def test_anchors_and_merged_mappings_are_read_whatever_is_merged_twice() -> None:
    text = """
tasks:
  a: &a {command: x, outputs: [a], hints: &hints {tier: memory}}
  b: &b {<<: *a, outputs: [b]}
  c: {<<: *b, outputs: [c], hints: {<<: *hints, close: fast}}
"""
    tasks = read_commands("w.yaml", text).tasks
    assert [(task.command, task.outputs) for task in tasks.values()] == [
        ("x", (name,)) for name in ("a", "b", "c")
    ]
    assert tasks["c"].hints == {"tier": "memory", "close": "fast"}
    with pytest.raises(GraphError, match="line 4, column 32: the key 'outputs' is there twice"):
        read_commands("w.yaml", text.replace("[b]}", "[b], outputs: [b]}"))


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(GraphError) as caught:
        read_commands("w.yaml", "tasks: {a: {cores: 0}, b: {command: x, hint: {}}}")
    assert len(caught.value.problems) == 3


def test_an_input_that_is_not_there_is_named_with_its_first_reader(tmp_path: Path) -> None:
    graph = read_commands("w.yaml", GOOD)
    with pytest.raises(GraphError, match=r"task make-1: field 'inputs': .*/text is not there"):
        require_inputs("w.yaml", graph, tmp_path)
    (tmp_path / "text").write_text("x")
    require_inputs("w.yaml", graph, tmp_path)


def test_an_instance_of_wfformat_becomes_a_replay(tmp_path: Path) -> None:
    source = ROOT / "crates/predict/tests/data/wf.json"
    graph, is_replay = read_workflow(
        source, Replay(scale=0.5, time_scale=0.1, burns=True), tmp_path, tmp_path
    )
    assert is_replay
    assert list(graph.tasks) == ["mProject_ID0000001", "mAdd_ID0000002"]
    project, add = graph.tasks.values()
    assert (project.stage, project.cores, round(project.compute_s, 9)) == ("mProject", 1, 0.8)
    assert (add.stage, add.cores, round(add.compute_s, 9)) == ("mAdd", 2, 1.0)
    assert graph.sources == ("sky#1", "empty.hdr")
    assert (graph.size_bytes["plane:1"], graph.size_bytes["empty.hdr"]) == (2_000_000, 0)
    assert json.loads(project.stdin or "")["writes"] == {"plane:1": 2_000_000}
    assert graph.warnings == ("1 of 4 files have 0 bytes",)


def instance(change: Any) -> str:
    document = json.loads((ROOT / "crates/predict/tests/data/wf.json").read_text())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(schemaVersion="1.3"), "field 'schemaVersion': '1.3' is unknown"),
        (lambda d: d.pop("workflow"), "field 'workflow' is missing"),
        (
            lambda d: d["workflow"]["specification"]["tasks"][0]["children"].append("x"),
            "task mProject_ID0000001: field 'children': there is no task 'x'",
        ),
        (
            lambda d: d["workflow"]["specification"]["tasks"][0]["inputFiles"].append("x"),
            "task mProject_ID0000001: field 'inputFiles': 'x' is not among the files",
        ),
        (
            lambda d: d["workflow"]["specification"]["tasks"][0]["parents"].append(
                "mAdd_ID0000002"
            ),
            "tasks wait for each other: ",
        ),
        (
            lambda d: d["workflow"]["specification"]["files"][0].update(sizeInBytes=-1),
            "file sky#1: field 'sizeInBytes': a whole number from 0",
        ),
        (
            lambda d: d["workflow"]["execution"]["tasks"].pop(),
            "task mAdd_ID0000002: field 'runtimeInSeconds'",
        ),
        (
            lambda d: d["workflow"]["execution"]["tasks"][0].update(coreCount=float("inf")),
            "field 'coreCount' in workflow.execution.tasks: a number is expected, not inf",
        ),
        (
            lambda d: d["workflow"]["specification"]["files"].append(
                {"id": "sky#1", "sizeInBytes": 5}
            ),
            "file sky#1: there are two of this id",
        ),
    ],
)
def test_an_instance_that_contradicts_itself_is_refused(change: Any, said: str) -> None:
    with pytest.raises(GraphError) as caught:
        read_wfformat("w.json", instance(change), Replay())
    assert said in str(caught.value)


def test_an_instance_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(GraphError, match="is nested too deeply"):
        read_wfformat("w.json", "[" * 100_000 + "]" * 100_000, Replay())


def test_names_of_files_are_safe_and_differ() -> None:
    names = ["a/b", "a%2Fb", "../x", ".x", "x", "#1:2", "y" * 300, "y" * 301]
    safe = [file_name(name) for name in names]
    assert len(set(safe)) == len(names)
    assert all("/" not in name and not name.startswith(".") and len(name) <= 200 for name in safe)


@pytest.mark.parametrize("seed", range(20))
def test_a_graph_is_in_order_whatever_order_it_is_written_in(seed: int) -> None:
    graph = random_graph(random.Random(seed), 30)
    seen: set[str] = set()
    for name in graph.tasks:
        assert graph.parents[name] <= seen
        assert all(name in graph.children[parent] for parent in graph.parents[name])
        seen.add(name)


def test_inputs_of_a_replay_are_dealt_by_bytes() -> None:
    text = instance(lambda d: None)
    graph = read_wfformat("w.json", text, Replay())
    assert dealt(graph, graph.sources, ["a", "b"]) == {"a": ["sky#1"], "b": ["empty.hdr"]}
    # As predictions have it: `inputs_are_dealt_as_a_run_deals_those_that_it_makes` of the model.
    sizes = {"a": 10, "b": 60, "c": 30, "d": 25}
    graph = replace(graph, size_bytes=sizes)
    assert dealt(graph, list(sizes), ["n1", "n2"]) == {"n1": ["b"], "n2": ["c", "d", "a"]}


def test_hints_follow_from_who_writes_and_who_reads() -> None:
    tasks: dict[str, Any] = {
        f"part-{n}": {"command": "x", "outputs": [f"p{n}"], "inputs": ["all"]} for n in range(4)
    }
    tasks["merge"] = {"command": "x", "inputs": [f"p{n}" for n in range(4)], "outputs": ["m"]}
    tasks["next"] = {"command": "x", "inputs": ["m"], "outputs": ["n"], "hints": {"tier": "ssd"}}
    tasks["last"] = {"command": "x", "inputs": ["n"], "outputs": ["z"], "hints": {"place": "local"}}
    unknown = read_commands("w.yaml", json.dumps({"tasks": tasks}))
    own = {"n": {"tier": "ssd"}, "z": {"place": "local"}}
    assert hints_of(unknown, Cluster(hosts=4)) == own, "only bytes saved pay, and nobody knows them"
    graph = replace(unknown, size_bytes=dict.fromkeys(unknown.consumers, 20_000_000))
    found = hints_of(graph, Cluster(hosts=4))
    assert {f"p{n}": {"place": "collocate:merge"} for n in range(4)}.items() <= found.items()
    assert found["all"] == {"pattern": "broadcast"}
    assert "m" not in found, "a store has it where it is made by itself"
    assert found["n"] == {"tier": "ssd"}
    assert found["z"] == {"place": "local"}
    assert set(hints_of(graph, Cluster(hosts=1))) == {"n", "z"}


@pytest.mark.parametrize(
    ("inherited", "is_needed"),
    [
        ({}, False),
        ({"place": "local"}, False),
        ({"tier": "ssd", "pattern": "reuse"}, False),
        ({"place": "local", "pattern": "distribute"}, False),
        ({"place": "collocate:others"}, True),
        ({"pattern": "distribute"}, True),
        ({"pattern": "scatter"}, True),
    ],
)
def test_what_the_store_does_by_itself_is_said_only_where_a_directory_says_otherwise(
    inherited: dict[str, str], is_needed: bool
) -> None:
    tasks = {"a": {"command": "x", "outputs": ["out/a"]}}
    tasks["b"] = {"command": "x", "inputs": ["out/a"], "outputs": ["b"]}
    unknown = read_commands("w.yaml", json.dumps({"tasks": tasks}))
    asked: list[str] = []

    def of(file: str) -> dict[str, str]:
        asked.append(file)
        return inherited

    graph = replace(unknown, size_bytes={"out/a": 1 << 20})
    expected = {"out/a": {"place": "local"}} if is_needed else {}
    assert hints_of(graph, Cluster(hosts=4), inherited=of) == expected
    assert set(asked) == {"out/a"}
    assert hints_of(unknown, Cluster(hosts=4), inherited=of) == {}
    small = replace(unknown, size_bytes={"out/a": 1 << 10})
    assert hints_of(small, Cluster(hosts=4), inherited=of) == {}


def test_files_that_are_not_worth_a_hint_get_none() -> None:
    def distributes(_: str) -> dict[str, str]:
        return {"pattern": "distribute"}

    text = instance(lambda d: d["workflow"]["specification"]["files"][1].update(sizeInBytes=99_999))
    small = read_wfformat("w.json", text, Replay())
    assert hints_of(small, Cluster(hosts=4), inherited=distributes) == {}
    whole = read_wfformat("w.json", instance(lambda d: None), Replay())
    found = hints_of(whole, Cluster(hosts=4), inherited=distributes)
    assert found == {"plane:1": {"place": "local"}}


@pytest.mark.parametrize(
    ("size_bytes", "readers", "hosts", "gbit_per_s", "gains"),
    [
        (20_000_000, 3, 4, 1, True),
        (20_000_000, 2, 4, 1, False),  # one of them runs beside the file
        (20_000_000, 19, 2, 1, False),  # all of them are on one host, or beside it
        (20_000_000, 19, 20, 0.1, True),
        (500_000, 19, 20, 0.1, False),  # it comes from its home in any case
        (600_000, 3, 4, 1, False),  # the questions take longer
        (600_000, 3, 4, 0.1, True),
        (2_000_000, 3, 4, 100, False),
    ],
)
def test_a_file_is_spread_where_its_readers_have_it_sooner(
    size_bytes: int, readers: int, hosts: int, gbit_per_s: float, gains: bool
) -> None:
    cluster = Cluster.linked(hosts, gbit_per_s * 119e6)
    assert cluster.gains_by_spreading(size_bytes, readers) is gains
