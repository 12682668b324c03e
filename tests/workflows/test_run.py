"""`intarsia run` in the mount of a store: real tasks, and everything that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import Bench
from intarsia.run.__main__ import main
from runs import ENVIRONMENT, ROOT, Run, assert_gone, run, wait_until

# Waits for the test to say so, or for ever.
GATE = "while [ ! -e go ]; do sleep 0.05; done; "


@pytest.fixture
def work(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new directory in a store's mount."""
    directory = bench.store("passthrough").mount / tmp_path_factory.mktemp("run").name
    directory.mkdir()
    yield directory
    subprocess.run(["rm", "-rf", directory], check=True, timeout=60)


def written(place: Path, tasks: dict[str, dict[str, object]]) -> Path:
    path = place / "w.yaml"
    path.write_text(json.dumps({"name": "test", "tasks": tasks}))
    return path


def gated(place: Path) -> Path:
    """Two tasks that end at once, two that wait at the gate, and one that needs all."""
    tasks: dict[str, dict[str, object]] = {
        f"{kind}-{n}": {"command": f"{gate}echo {kind} {n} > {kind}{n}", "outputs": [f"{kind}{n}"]}
        for kind, gate in (("soon", ""), ("late", GATE))
        for n in range(2)
    }
    files = ["soon0", "soon1", "late0", "late1"]
    tasks["sum"] = {"command": f"cat {' '.join(files)} > sum", "inputs": files, "outputs": ["sum"]}
    return written(place, tasks)


def is_at_the_gate(directory: Path) -> bool:
    journal = directory / ".run-w/journal"
    if not journal.exists() or journal.read_text().count('"done"') < 2:
        return False
    return len(list(directory.glob(".run-w/logs/late-*"))) == 2


def test_a_recorded_workflow_is_replayed_and_recorded(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ROOT / "crates/predict/tests/data/wf.json"
    told = [f"--record={tmp_path}/r.json", f"--trace={tmp_path}/t.json"]
    scale = ["--scale", "0.01", "--time-scale", "0.001"]
    told += ["--report", f"{tmp_path}/page", "--quiet", "--json"]
    out, said = Run(source, "--directory", work, *scale, *told).end()
    summary = json.loads(out)
    assert said == ""
    assert summary["tasks"]["done"] == 2
    assert (work / "mosaic").stat().st_size == 1_700_000
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["schemaVersion"] == "1.5"
    began = [task["executedAt"] for task in record["workflow"]["execution"]["tasks"]]
    assert len(began) == 2
    assert began == sorted(began)
    assert "mProject_ID0000001" in (tmp_path / "t.json").read_text()
    assert "The longest chain" in (tmp_path / "page/report.html").read_text()
    # What was recorded is a workflow again.
    assert main([str(tmp_path / "r.json"), "--directory", str(work), "--dry-run"]) == 0
    assert "2 of 2 tasks would run" in capsys.readouterr().out
    assert main([str(source), "--directory", str(work), *scale, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"]["done_before"] == 2


def test_every_kind_of_failure_is_told_and_the_rest_goes_on(work: Path, tmp_path: Path) -> None:
    tasks: dict[str, dict[str, object]] = {
        "fails": {"command": "echo oops; exit 3", "outputs": ["a"]},
        "needs": {"command": "cat a > b", "inputs": ["a"], "outputs": ["b"]},
        "dies": {"command": "kill -9 $$", "outputs": ["c"]},
        "hangs": {"command": "sleep 1000 & sleep 1000", "outputs": ["d"], "timeout_s": 0.5},
        "lazy": {"command": "true", "outputs": ["e"], "hints": {"close": "fast"}},
        "elsewhere": {"command": "echo > f; echo > stray", "outputs": ["f"]},
        "touches": {"command": ": > g", "outputs": ["g"], "hints": {"close": "fast"}},
        "again": {
            "command": "[ -e tried ] && echo > h; echo > tried; ls h",
            "outputs": ["h"],
            "retries": 1,
        },
    }
    options = ("--directory", work, "--keep-going", "--json", "--quiet")
    told, said = Run(written(tmp_path, tasks), *options).end(1)
    summary = json.loads(told)
    why = {one["task"]: one["why"].split(";")[0] for one in summary["failures"]}
    assert why == {
        "fails": "ended with 3",
        "dies": "was ended by SIGKILL",
        "hangs": "took longer than 0.5 s",
        "lazy": "ended well but did not make e",
    }
    assert summary["blocked"] == ["needs"]
    assert summary["tasks"]["done"] == 3
    assert "task fails failed: ended with 3" in said
    assert "oops" in said
    assert "tried again" not in said
    assert "stray, tried" in summary["warnings"][0]
    assert (work / ".run-w/logs/fails.1.log").read_text() == "oops\n"
    assert os.getxattr(work / "g", "user.intarsia.close") == b"fast"
    assert not (work / "e").exists()


def test_what_tasks_write_elsewhere_in_the_store_is_named(work: Path, tmp_path: Path) -> None:
    place, beside = work / "place", work / "beside"
    place.mkdir()
    beside.mkdir()
    tasks: dict[str, dict[str, object]] = {
        "above": {"command": "echo > a; echo > ../beside/x", "outputs": ["a"]},
        "there": {"command": f"cd {beside} && echo > y && cp y ../place/b", "outputs": ["b"]},
        "waits": {"command": f"{GATE}echo > c", "outputs": ["c"]},
    }
    goes = Run(written(tmp_path, tasks), "--directory", place, "--slots", "4", "--json")
    wait_until(lambda: (place / "b").exists(), goes)
    (beside / "of another program").touch()
    (place / "go").touch()
    (warning,) = goes.summary()["warnings"]
    assert warning.endswith(f"were made: {beside}/x, {beside}/y, go")


def test_after_kill_9_of_the_command_nothing_runs_and_the_rest_is_done_next(
    work: Path, tmp_path: Path
) -> None:
    workflow = gated(tmp_path)
    options = [f"--directory={work}", "--slots=4"]
    first = Run(workflow, *options)
    wait_until(lambda: is_at_the_gate(work), first)
    assert "another run uses" in Run(workflow, *options).end(4)[1]
    started = first.started()
    assert any("while" in " ".join(one.cmdline()) for one in started)
    first.process.kill()
    first.process.communicate()
    assert_gone(started)
    (work / "go").touch()
    summary = run(workflow, *options)
    assert (summary["tasks"]["done_before"], summary["tasks"]["done"]) == (2, 3)
    assert (work / "sum").read_text() == "soon 0\nsoon 1\nlate 0\nlate 1\n"


def test_a_run_goes_on_after_kill_9_of_its_worker(work: Path, tmp_path: Path) -> None:
    goes = Run(gated(tmp_path), "--directory", work, "--slots", "4", "--json")
    wait_until(lambda: is_at_the_gate(work), goes)
    started = psutil.Process(goes.process.pid).children()
    (worker,) = [one for one in started if "lookout.py" not in " ".join(one.cmdline())]
    below = worker.children(recursive=True)
    worker.kill()
    assert_gone(below)
    (work / "go").touch()
    summary = goes.summary()
    assert summary["workers_lost"] == 2
    assert summary["tasks"]["done"] == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_in_good_order(
    number: signal.Signals, work: Path, tmp_path: Path
) -> None:
    goes = Run(gated(tmp_path), "--directory", work, "--slots", "4", "--json")
    wait_until(lambda: is_at_the_gate(work), goes)
    started = goes.started()
    goes.process.send_signal(number)
    if number == signal.SIGINT:
        # What runs may end; nothing more begins.
        stderr = goes.process.stderr
        assert stderr is not None
        assert "nothing more begins" in stderr.readline()
        (work / "go").touch()
    summary = goes.summary(128 + number)
    assert_gone(started)
    assert summary["stopped_by"] == number.name
    late = 2 if number == signal.SIGINT else 0
    assert summary["tasks"]["done"] == 2 + late
    assert (work / "late0").exists() == bool(late)


def test_a_page_shows_a_run_while_it_goes_on(work: Path, tmp_path: Path) -> None:
    goes = Run(gated(tmp_path), "--directory", work, "--slots", "4", "--live", "0")
    stderr = goes.process.stderr
    assert stderr is not None
    url = stderr.readline().removeprefix("live page: ").strip()
    wait_until(lambda: len(state(url).get("blocked_by", [])) == 1 and is_at_the_gate(work), goes)
    wait_until(lambda: state(url)["tasks"]["done"] == 2, goes)
    shown = state(url)
    assert shown["tasks"]["running"] == 2
    assert shown["blocked_by"] == [{"task": "sum", "needs": 2, "for": ["late-0", "late-1"]}]
    (host,) = shown["hosts"]
    assert [one["task"] for one in host["running"]] == ["late-0", "late-1"]
    taken = Run(gated(tmp_path), f"--directory={work}", "--run-dir", tmp_path, "--live", url[7:-1])
    assert "give another port, or 0" in taken.end(1)[1]
    (work / "go").touch()
    goes.end()
    with pytest.raises(urllib.error.URLError):
        state(url)


def state(url: str) -> Any:
    """What the page of a run shows."""
    with urllib.request.urlopen(f"{url}state.json", timeout=10) as answer:
        return json.loads(answer.read())


@contextmanager
def dask(place: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler with a worker, which are not of any run: its address, and their processes."""
    told = place / "scheduler.json"
    options = ["--scheduler-file", str(told), "--no-dashboard"]
    own = {"scheduler": ["--port", "0"], "worker": ["--nthreads", "4", "--no-nanny"]}
    started = []
    try:
        for kind, more in own.items():
            words = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options, *more]
            with (place / f"{kind}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(words, cwd=place, stdout=log, stderr=log, env=ENVIRONMENT)
                )
            wait_until(told.exists)
        yield json.loads(told.read_text())["address"], started
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_scheduler_that_is_there_is_used_and_its_end_is_no_loss(
    work: Path, tmp_path: Path
) -> None:
    workflow = gated(tmp_path)
    with dask(tmp_path) as (address, (scheduler, worker)):
        goes = Run(workflow, "--directory", work, "--scheduler", address)
        wait_until(lambda: is_at_the_gate(work), goes)
        below = psutil.Process(worker.pid).children(recursive=True)
        scheduler.kill()
        assert "the scheduler is gone" in goes.end(1)[1]
        assert_gone(below)
    (work / "go").touch()
    assert run(workflow, "--directory", work)["tasks"]["done"] == 3
