"""The record of a run goes by the schema of WfFormat 1.5, whatever its files and tasks are called.

The rules are those of `wfcommons-schema.json` of github.com/wfcommons/WfFormat, version 1.5, which
is LGPL and so not part of this repository. INTARSIA_WFFORMAT_SCHEMA may name that file; then
`jsonschema` checks the records against it too.
"""

from __future__ import annotations

import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from intarsia.run.attempts import Attempt, History
from intarsia.run.graph import Task, graph_of
from intarsia.run.order import Outcome, Result
from intarsia.run.record import identifier, wfformat_of
from intarsia.run.replay import Replay
from intarsia.run.wfformat import read_wfformat

SAFE = re.compile(r"[0-9a-zA-Z-_.]*")
NAMES = [
    "plain",
    "out/deep/file.txt",
    "out_deep_file.txt",
    "/absolute",
    "blank and ü",
    "a%2Fb",
    "#:~",
]


def history(directory: Path) -> History:
    """A chain of tasks over files of all kinds of names, of which the last one failed."""
    tasks = [
        Task(
            f"t%{number}",
            "it's not shell" if number else "cat x > y",
            (NAMES[number],),
            (NAMES[number + 1],),
            stage="t",
        )
        for number in range(len(NAMES) - 1)
    ]
    made = History(graph_of("w", "w", tasks), directory, directory, "local")
    made.began_s, made.ended_s = 1000.0, 1100.0
    made.machines["n1"] = {"system": "linux", "cpu": {"coreCount": 2}, "memoryInBytes": 1 << 30}
    for number, task in enumerate(tasks[:-1]):
        outcome = Outcome(Result.DONE, began_s=1000.0 + number, ended_s=1001.0 + number, cpu_s=0.5)
        made.attempts.append(
            Attempt(task.name, 1, "n1", 1000.0, 1000.0, 10, 5, outcome, str(directory / "log"))
        )
    return made


def check(record: dict[str, Any]) -> None:
    """What the schema asks for."""
    assert record["schemaVersion"] == "1.5"
    assert record["name"]
    datetime.fromisoformat(record["createdAt"])
    specification = record["workflow"]["specification"]
    ids = {task["id"] for task in specification["tasks"]}
    files = {file["id"] for file in specification["files"]}
    assert len(ids) == len(specification["tasks"]) > 0
    assert len(files) == len(specification["files"])
    for task in specification["tasks"]:
        for field, known in (
            ("parents", ids),
            ("children", ids),
            ("inputFiles", files),
            ("outputFiles", files),
        ):
            assert set(task[field]) <= known
            assert all(SAFE.fullmatch(one) for one in task[field])
    execution = record["workflow"].get("execution")
    if execution is not None:
        assert execution["tasks"]
        assert execution["machines"]
        for task in execution["tasks"]:
            assert task["id"] in ids
            assert task["coreCount"] >= 1
            assert task["command"]["program"]
            assert all(task["command"]["arguments"])
    if schema := os.environ.get("INTARSIA_WFFORMAT_SCHEMA"):
        import jsonschema  # type: ignore[import-untyped]

        jsonschema.validate(record, json.loads(Path(schema).read_text()))


def test_a_record_goes_by_the_schema(tmp_path: Path) -> None:
    record = wfformat_of(history(tmp_path), {})
    check(record)
    assert [file["path"] for file in record["workflow"]["specification"]["files"]] == NAMES


def test_a_record_of_nothing_that_was_done_has_no_execution(tmp_path: Path) -> None:
    made = history(tmp_path)
    made.attempts.clear()
    record = wfformat_of(made, {})
    check(record)
    assert "execution" not in record["workflow"]


def test_a_record_is_a_workflow_of_the_same_shape(tmp_path: Path) -> None:
    made = history(tmp_path)
    made.attempts.append(made.attempts[0])
    record = wfformat_of(made, {})
    last = dict(record["workflow"]["execution"]["tasks"][-1])
    last["id"] = record["workflow"]["specification"]["tasks"][-1]["id"]
    record["workflow"]["execution"]["tasks"].append(last)
    graph = read_wfformat("record", json.dumps(record), Replay())
    assert len(graph.tasks) == len(made.graph.tasks)
    assert len(graph.sources) == len(graph.results) == 1


@pytest.mark.parametrize("name", NAMES)
def test_identifiers_are_safe_and_differ(name: str) -> None:
    assert SAFE.fullmatch(identifier(name))
    assert [other for other in NAMES if identifier(other) == identifier(name)] == [name]
