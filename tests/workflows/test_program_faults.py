"""Real programs, and a recorded workflow, when a host is lost in the middle of `intarsia run`.

| what runs | in the middle of | everything is killed on a host, and then |
|---|---|---|
| BLAST | its searches | what it held is made again; the hits are those of an undisturbed run |
| Montage | its corrections of tiles | the same; the mosaic has the same bytes |
| a recorded run of Montage, replayed | its tasks | the same; files are as long as recorded |

The sources have two copies.
"""

from __future__ import annotations

import importlib
import itertools
import json
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import require
from intarsia.demo import blast
from lab_hosts import ROOT, Hosts, lab_hosts
from pattern_graphs import Gate, do_in_turn
from runs import ENVIRONMENT, LIMIT_S, wait_until
from store_processes import check_store, kill, mend, processes

FIRST, LOST = "n1", "n3"
#: Of the bytes of the recorded one.
SCALE = 0.2
#: Tiles a side, parts of the query, and how much that is.
SIZE = (3, 9, "tiny")
#: Of the workflow: its name, and which tasks halt.
MONTAGE = ("montage", "mBackground")
BLAST = ("blast", "blastn")


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over three hosts."""
    with lab_hosts("programs-", 3) as hosts:
        yield hosts


def made(name: str, place: Path) -> tuple[dict[str, Any], str]:
    """Make the inputs of a workflow; its tasks by name, and the result."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        programs = importlib.import_module("programs")
        absent = importlib.import_module("labs").Absent
    finally:
        sys.path.pop(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(programs.SIZES, "of a test", SIZE)
        patch.setitem(blast._QUERY_STRIDE, SIZE[-1], 560)
        try:
            tasks, result = programs.MAKERS[f"{name}-programs"](place, "of a test")
        except absent as why:
            require(False, str(why))
    return tasks, result


def bring(hosts: Hosts, inputs: Path) -> Path:
    """Deal inputs over the hosts, in two copies each; return their new directory."""
    job = hosts.new_directory()
    hints = {"user.intarsia.replicas": b"2", "user.intarsia.close": b"safe"}
    for hint, value in hints.items():
        os.setxattr(job, hint, value)
    files = sorted(path.relative_to(inputs) for path in inputs.rglob("*") if path.is_file())
    for file, mount in zip(files, itertools.cycle(hosts.store.mounts), strict=False):
        (mount / job.name / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(inputs / file, mount / job.name / file)
    for directory in (job, *(path for path in job.rglob("*") if path.is_dir())):
        for hint in hints:
            os.removexattr(directory, hint)
    return job


@contextmanager
def run(hosts: Hosts, job: Path, workflow: Path, *options: str) -> Iterator[Any]:
    """Begin a run that makes again what was lost; afterwards all is whole, and nothing runs."""
    words = [sys.executable, "-m", "intarsia.run", str(workflow), "--lineage", "--json"]
    words += ["--directory", str(hosts.mount / job.name), "--hosts", "n1,n2,n3", "--slots", "1"]
    words += ["--address", "10.77.0.1", "--shell", hosts.shell, *options]
    words += ["--run-dir", str(workflow.parent / "run")]
    with workflow.with_suffix(".said").open("wb") as said:
        goes = subprocess.Popen(
            hosts.words(FIRST, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=ENVIRONMENT,
        )
    try:
        yield goes
    finally:
        if goes.poll() is None:
            goes.kill()
        goes.communicate()
        mend(hosts)
    check_store(hosts)
    wait_until(lambda: not processes(hosts, None, job.name, str(workflow.parent)))


def lose_a_host(hosts: Hosts, goes: Any, is_there: Callable[[], bool]) -> None:
    """Kill everything on a host when tasks have come so far."""
    wait_until(lambda: goes.poll() is not None or is_there())
    assert goes.poll() is None
    kill(processes(hosts, LOST))


def ended_well(goes: Any, said: Path) -> Any:
    """Wait for the end of a run, which has lost a host and is well; return its summary."""
    out, _ = goes.communicate(timeout=LIMIT_S)
    assert goes.returncode == 0, said.read_text()
    summary = json.loads(out)
    assert summary["workers_lost"], summary
    return summary


def do_undisturbed(tasks: dict[str, Any], directory: Path) -> None:
    """Do all tasks without a store; `intarsia run` makes their directories."""
    for task in tasks.values():
        for output in task["outputs"]:
            (directory / output).parent.mkdir(parents=True, exist_ok=True)
    do_in_turn(tasks, directory)


@pytest.mark.parametrize(("name", "halting"), [MONTAGE, BLAST], ids=["montage", "blast"])
def test_programs_make_the_same_when_a_host_is_lost(
    name: str, halting: str, hosts: Hosts, tmp_path: Path
) -> None:
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    tasks, result = made(name, undisturbed)
    job = bring(hosts, undisturbed)
    do_undisturbed(tasks, undisturbed)
    gate = Gate(tmp_path / "gate")
    for one in (one for one in tasks if one.startswith(f"{halting}-")):
        tasks[one]["command"] = f"{{ {tasks[one]['command']}; }} && {{ {gate.wait(one)}; }}"
    workflow = tmp_path / f"{name}.yaml"
    workflow.write_text(json.dumps({"name": name, "tasks": tasks}))
    with run(hosts, job, workflow) as goes:
        lose_a_host(hosts, goes, lambda: len(set(gate.hosts())) == 3)
        gate.go.touch()
        ended_well(goes, workflow.with_suffix(".said"))
        assert (job / result).read_bytes() == (undisturbed / result).read_bytes()


def test_a_recorded_workflow_ends_well_when_a_host_is_lost(hosts: Hosts, tmp_path: Path) -> None:
    (packed,) = (ROOT / "bench/instances").glob("montage-*.xz")
    workflow = tmp_path / "recorded.json"
    workflow.write_bytes(lzma.decompress(packed.read_bytes()))
    described = json.loads(workflow.read_text())["workflow"]["specification"]
    size_bytes = {one["id"]: round(one["sizeInBytes"] * SCALE) for one in described["files"]}
    outputs = {file for task in described["tasks"] for file in task["outputFiles"]}
    sources = tmp_path / "sources"
    sources.mkdir()
    for file in size_bytes.keys() - outputs:
        (sources / file).write_bytes(os.urandom(max(1, size_bytes[file])))
    job = bring(hosts, sources)
    options = ["--scale", str(SCALE), "--time-scale", "0.02"]
    with run(hosts, job, workflow, *options) as goes:
        lose_a_host(
            hosts, goes, lambda: sum((job / file).exists() for file in outputs) > len(outputs) / 3
        )
        summary = ended_well(goes, workflow.with_suffix(".said"))
        assert summary["tasks"]["made_again"], summary["tasks"]
        found = {file: (job / file).stat().st_size for file in outputs}
        assert found == {file: max(1, size_bytes[file]) for file in outputs}
