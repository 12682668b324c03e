"""The demonstrations through the mount: identical results and nothing left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import require
from intarsia.demo.__main__ import EXIT_INTERRUPTED, main
from intarsia.demo.blast import Blast
from intarsia.demo.montage import Montage
from intarsia.demo.workflow import Workflow, missing_programs
from intarsia.lab_store import lab_problem


@pytest.mark.parametrize("mode", ["passthrough", "write-back"])
@pytest.mark.parametrize("workflow", [Montage(), Blast()], ids=["montage", "blast"])
def test_a_workflow_in_the_store_gives_the_native_results(
    workflow: Workflow, mode: str, native: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = missing_programs(workflow.programs)
    require(not missing, "missing " + ", ".join(missing))
    scratch = native / "scratch"
    arguments = ["--size", "tiny", "--rounds", "1", "--json"]
    arguments += ["--scratch", str(scratch), "--out", str(native / "out")]
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


@pytest.mark.parametrize("workflow", [Montage(), Blast()], ids=["montage", "blast"])
def test_a_workflow_spread_over_eight_hosts_gives_the_native_results(
    workflow: Workflow, native: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = missing_programs(workflow.programs)
    require(not missing, "missing " + ", ".join(missing))
    problem = lab_problem()
    require(problem is None, str(problem))
    scratch = native / "scratch"
    arguments = ["--size", "tiny", "--rounds", "1", "--json", "--hosts", "8"]
    places = ["--scratch", str(scratch), "--out", str(native / "out")]
    code = main([workflow.name, *arguments, *places])
    said = capsys.readouterr()
    assert code == 0, said.err
    (found,) = json.loads(said.out)
    assert found["identical"] is True
    assert list(scratch.iterdir()) == []


def test_a_demonstration_that_is_ended_takes_its_store_down(native: Path) -> None:
    missing = missing_programs(Montage().programs)
    require(not missing, "missing " + ", ".join(missing))
    scratch = native / "scratch"
    command = [sys.executable, "-m", "intarsia.demo", "montage", "--rounds", "50"]
    command += ["--scratch", str(scratch), "--out", str(native / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # By the end of the first run the store is up, and the second run works in it.
        while "run 1/" not in (line := process.stderr.readline()):
            assert line, "the demonstration ended by itself"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    assert process.returncode == EXIT_INTERRUPTED, said
    assert list(scratch.iterdir()) == []
    assert str(native) not in Path("/proc/self/mountinfo").read_text()
