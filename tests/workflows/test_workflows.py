"""The demonstrations through the mount: identical results and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import require
from intarsia.demo.__main__ import main
from intarsia.demo.blast import Blast
from intarsia.demo.montage import Montage
from intarsia.demo.workflow import Workflow, missing_programs


@pytest.mark.parametrize("mode", ["passthrough", "write-back"])
@pytest.mark.parametrize("workflow", [Montage(), Blast()], ids=["montage", "blast"])
def test_a_workflow_in_the_store_gives_the_native_results(
    workflow: Workflow, mode: str, native: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = missing_programs(workflow.programs)
    require(not missing, "missing " + ", ".join(missing))
    scratch = native / "scratch"
    arguments = ["--rounds", "1", "--json", "--scratch", str(scratch), "--out", str(native / "out")]
    if mode == "write-back":
        arguments.append("--no-passthrough")
    code = main([workflow.name, *arguments])
    said = capsys.readouterr()
    assert code == 0, said.err
    (found,) = json.loads(said.out)
    assert found["identical"] is True
    assert {run["place"] for run in found["runs"]} == {"native", "store"}
    if mode == "write-back":
        assert found["store"]["passthrough"]["in_force"] is False
    assert found["store"]["inodes"] > found["files"]
    assert list(scratch.iterdir()) == []
