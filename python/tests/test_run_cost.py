"""What the engine takes for each task: found by a real run, kept in a profile, and foretold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import intarsia
from intarsia.refine import __main__ as refine
from intarsia.run import __main__ as session
from simulator import real_binary

ACCESS = {"request_seconds": 1e-5, "bytes_per_second": 1e9}
PROFILE: dict[str, Any] = {
    "format": "intarsia-profile",
    "version": 1,
    "name": "one",
    "provenance": {"source": "assumed", "note": "a test"},
    "hosts": 1,
    "host": {"slots": 2, "in_bytes_per_second": 1e9, "out_bytes_per_second": 1e9},
    "network": {"latency_seconds": 0, "loopback_bytes_per_second": 4e9},
    "manager": {"open_seconds": 1e-5, "allocate_seconds": 1e-5, "commit_seconds": 1e-5},
    "tiers": [{"class": "memory", "capacity_bytes": 10**9, "read": ACCESS, "write": ACCESS}],
}
TASKS = 6


def start(
    workflow: Path, directory: Path, *options: str | Path
) -> subprocess.CompletedProcess[str]:
    """Run a workflow in a process of its own."""
    directory.mkdir()
    words = [sys.executable, "-m", "intarsia.run", workflow, "--directory", directory, *options]
    found = {"PYTHONPATH": str(Path(intarsia.__file__).parents[1])}
    return subprocess.run(
        [*map(str, words), "--slots", "2", "--json"],
        env=os.environ | found,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run(workflow: Path, directory: Path, *options: str | Path) -> Any:
    """Run a workflow; returns its summary."""
    done = start(workflow, directory, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def makespan_s(binary: Path, workload: Path, profile: Path) -> float:
    """Return what is foretold."""
    words: list[str | Path] = [binary, "predict", workload, "--profile", profile, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["makespan_seconds"]["mean"])


def flow(directory: Path) -> Path:
    """A workflow of tasks that take no time."""
    tasks: dict[str, dict[str, Any]] = {
        f"t{number}": {"command": f"true > o{number}", "outputs": [f"o{number}"]}
        for number in range(TASKS)
    }
    tasks["t5"]["after"] = ["t4"]
    workflow = directory / "flow.yaml"
    workflow.write_text(json.dumps({"name": "flow", "tasks": tasks}))
    return workflow


def test_a_run_tells_what_its_engine_takes_and_a_prediction_with_it_is_longer(
    tmp_path: Path,
) -> None:
    binary = real_binary()
    workflow = flow(tmp_path)
    told = run(workflow, tmp_path / "work")["engine"]
    run_dir = tmp_path / "work" / ".run-flow"
    left = json.loads((run_dir / "engine.json").read_text())
    assert left["task_seconds"] > 0
    assert left["start_seconds"] > 0
    assert (left["tasks"], left["hosts"], left["replay"]) == (TASKS, 1, False)
    assert 0 < left["task_processor_seconds"] < TASKS * left["task_seconds"]
    # The last task waits for the one before it, and no other is left then.
    assert left["alone_tasks"] >= 1
    assert left["start_alone_seconds"] > 0
    assert left["computes"] == "burned"
    assert told == {
        "task_s": round(left["task_seconds"], 6),
        "start_s": round(left["start_seconds"], 6),
    }

    profile, refined = tmp_path / "p.json", tmp_path / "refined.json"
    profile.write_text(json.dumps(PROFILE))
    assert refine.main([str(profile), str(run_dir), "--out", str(refined)]) == 0
    record = run_dir / "observed.json"
    without, with_it = (makespan_s(binary, record, one) for one in (profile, refined))
    # One task after the other in the engine, and two of them in turn on a slot.
    assert with_it > without
    assert with_it >= TASKS * left["task_seconds"] + 2 * left["start_seconds"]

    # The same as a replay, whose record does not count the start of what imitates a task.
    run(record, tmp_path / "again")
    replayed = json.loads((tmp_path / "again/.run-observed/engine.json").read_text())
    assert replayed["replay"]
    assert replayed["computes"] == "slept"
    assert replayed["start_seconds"] > 0
    assert replayed["id"] != left["id"]


def test_a_run_refines_the_profile_that_it_is_given_and_each_run_counts(tmp_path: Path) -> None:
    workflow, profile = flow(tmp_path), tmp_path / "p.json"
    profile.write_text(json.dumps(PROFILE))
    done = start(workflow, tmp_path / "a", "--refine", profile)
    assert done.returncode == 0, done.stderr
    assert f"{profile} is refined: engine " in done.stderr
    first = json.loads(profile.read_text())
    assert first["engine"]["task_seconds"] > 0
    run(workflow, tmp_path / "b", "--refine", profile)
    second = json.loads(profile.read_text())
    assert len(second["measured"]["engine"]["runs"]) == 2
    # What was done before tells nothing anew.
    again = [*map(str, (workflow, "--directory", tmp_path / "b", "--refine", profile))]
    assert session.main(again) == 0
    assert json.loads(profile.read_text()) == second


def test_a_profile_that_cannot_be_refined_is_refused_before_anything_runs(tmp_path: Path) -> None:
    workflow, missing = flow(tmp_path), tmp_path / "none.json"
    done = start(workflow, tmp_path / "a", "--refine", missing)
    assert done.returncode != 0
    assert f"{missing}: No such file or directory" in done.stderr
    assert not (tmp_path / "a/o0").exists()
