"""`intarsia run` in jobs of a real Slurm: from nothing to results, and on workers that are jobs.

Each node of the Slurm is a host of a lab, and has mounts of its own, so that all have the store at
one path, as on real nodes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import SCRATCH, require
from intarsia.lab_store import lab_problem
from intarsia.store import find_binary
from runs import ENVIRONMENT, ROOT, wait_until
from slurm_site import NODES, Slurm, slurm_site

EXAMPLE = ROOT / "docs/user/run/slurm_jobs.py"
# What a node has for itself: its mounts, among them where its stores are registered.
_ON_NODE = (
    'mount --make-rprivate / && mount -t tmpfs -o mode=700 registry "$1" && shift && exec "$@"'
)


@dataclass(frozen=True)
class Nodes:
    """The hosts of a lab, each with mounts of its own."""

    lab: str
    registry: Path

    def words(self, host: str, *words: str) -> list[str]:
        """Return the words of a command that runs another on a host."""
        within = [str(find_binary()), "lab", "exec", "--lab", self.lab, host, "--"]
        alone = ["unshare", "--mount", "sh", "-c", _ON_NODE, "sh", str(self.registry)]
        return [*within, *alone, *words]


class Site:
    """A Slurm, a workflow, and the places of the store that a job brings up."""

    def __init__(self, slurm: Slurm) -> None:
        self.slurm = slurm
        self.directory = slurm.directory
        self.mount, self.inputs = self.directory / "work", self.directory / "in"
        self.gate, self.go = self.directory / "gate", self.directory / "go"
        self.workflow, self.summary = self.directory / "w.yaml", self.directory / "summary.json"
        #: What the last job printed.
        self.log = self.directory / "job.log"
        #: Where each host has what it keeps.
        self.up_options = f"--dir {self.directory}/store-{{host}}"
        self.inputs.mkdir()
        (self.inputs / "text").write_text("one two\n" * 200_000)
        self.workflow.write_text(json.dumps({"name": "words", "tasks": counting(self)}))

    def run(self, *options: str | Path) -> str:
        """The command of a run that brings its store up."""
        words = ["intarsia", "run", self.workflow, "--up", self.mount, "--slots", "1"]
        words += ["--up-options", self.up_options, "--stage-in", f"{self.inputs}/.", *options]
        return shlex.join(map(str, [*words, "--schedule", "workqueue"]))

    def submit(self, nodes: int, *lines: str) -> str:
        """Submit a job; return its number."""
        shutil.rmtree(self.gate, ignore_errors=True)
        self.gate.mkdir()
        self.go.unlink(missing_ok=True)
        script = self.directory / "job.sh"
        variables = {
            "PATH": f"{find_binary().parent}:{os.environ['PATH']}",
            "PYTHONPATH": ENVIRONMENT["PYTHONPATH"],
            "INTARSIA_PYTHON": sys.executable,
            "INTARSIA_RUNTIME_DIR": str(self.directory / "run"),
        }
        told = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        script.write_text("\n".join(["#!/bin/sh", "set -e", *told, *lines, ""]))
        words = ["sbatch", "--parsable", f"--nodes={nodes}", f"--output={self.log}", str(script)]
        return self.slurm.run(*words).strip()

    def wait_for_gate(self) -> None:
        """Wait until both tasks that wait there are at the gate, and the first is done."""
        self.wait_until(lambda: {"1", "2"} <= {path.name for path in self.gate.iterdir()})
        self.wait_until(lambda: '"done"' in self.seen_by("n1", ".run-w/journal").read_text())

    def seen_by(self, node: str, file: str) -> Path:
        """The path of a file of the store by the mount of a node."""
        return self._server(node) / f"root{self.mount}/{file}"

    def _server(self, node: str) -> Path:
        """What the kernel says of the process that begins what runs on a node."""
        return Path("/proc") / (self.directory / f"slurmd-{node}.pid").read_text().strip()

    def wait(self, job: str) -> str:
        """Wait until a job has ended; return what it printed."""
        self.wait_until(lambda: job not in self.slurm.jobs())
        return self.log.read_text()

    def wait_until(self, what: Callable[[], bool]) -> None:
        """Wait for something, or say what the last job printed and what is there of it."""
        try:
            wait_until(what)
        except AssertionError as error:
            left = "\n".join(self.leftovers())
            raise AssertionError(f"{self.log.read_text()}\n{left}") from error

    def leftovers(self) -> list[str]:
        """What jobs have left: their mounts, processes, and directories of the store."""
        found = [f"job {job}" for job in self.slurm.jobs()]
        for node in NODES:
            mounts = (self._server(node) / "mountinfo").read_text().splitlines()
            found += [f"{node}: {mount}" for mount in mounts if f" {self.mount} " in mount]
        ours = str(self.directory / "slurm.conf")
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_server = process.name().startswith("slurm")
                if not is_server and process.environ().get("SLURM_CONF") == ours:
                    found.append(shlex.join(process.cmdline()))
        return found + [str(path) for path in self.directory.glob("store-*")]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A Slurm whose nodes have room for two jobs each."""
    problem = lab_problem()
    require(problem is None, str(problem))
    with contextlib.ExitStack() as stack:
        place = tempfile.TemporaryDirectory(prefix="run-slurm-", dir=SCRATCH)
        directory = Path(stack.enter_context(place)).resolve()
        (directory / "run").mkdir()
        lab = f"slurm-{uuid.uuid4().hex[:6]}"
        command = [str(find_binary()), "lab"]
        up = [*command, "up", lab, f"--nodes={len(NODES)}"]
        subprocess.run(up, check=True, capture_output=True)
        stack.callback(subprocess.run, [*command, "down", lab, "--kill"], capture_output=True)
        nodes = Nodes(lab, directory / "run")
        yield Site(stack.enter_context(slurm_site(directory, nodes, cpus=2)))


def counting(site: Site) -> dict[str, Any]:
    """Three tasks, of which two wait at the gate, and one that needs all."""
    tasks: dict[str, Any] = {}
    for n in range(3):
        began = f"echo $SLURMD_NODENAME > {site.directory}/on-{n}; mv {site.directory}/on-{n} "
        wait = f"while [ ! -e {site.go} ]; do sleep 0.05; done; " if n else ""
        tasks[f"on-{n}"] = {
            "command": f"{began}{site.gate}/{n}; {wait}cp text copy{n}",
            "inputs": ["text"],
            "outputs": [f"copy{n}"],
        }
    copies = [task["outputs"][0] for task in tasks.values()]
    count = {"command": "cat copy* | wc -w > words", "inputs": copies, "outputs": ["words"]}
    return tasks | {"count": count}


def test_a_job_goes_from_nothing_to_results(site: Site) -> None:
    results = site.directory / "results"
    run = site.run("--stage-out", results, "--json")
    job = site.submit(3, f"{run} > {site.summary}")
    site.wait_for_gate()
    site.go.touch()
    said = site.wait(job)
    assert f"a store is up at {site.mount} on 3 hosts" in said
    assert "is down; its data is deleted" in said
    told = json.loads(site.summary.read_text())
    assert told["tasks"]["done"] == 4
    assert set(told["hosts"]) == {"n1", "n2", "n3"}
    assert {path.read_text() for path in site.gate.iterdir()} == {"n1\n", "n2\n", "n3\n"}
    assert (results / "words").read_text().strip() == "1200000"
    site.wait_until(lambda: not site.leftovers())


def test_what_is_left_of_a_job_that_is_ended(site: Site) -> None:
    # As `#SBATCH --signal=B:TERM@120` has it before the time of a job is over.
    job = site.submit(3, f"exec {site.run()}")
    site.wait_for_gate()
    site.slurm.run("scancel", "--batch", "--signal=TERM", job)
    said = site.wait(job)
    assert "is down; its data stays" in said
    # The next job on these nodes goes on with it.
    job = site.submit(3, site.run("--discard"))
    site.wait_for_gate()
    assert not (site.gate / "0").exists()
    # A job that is cancelled leaves no time for anything.
    site.slurm.run("scancel", job)
    assert "CANCELLED" in site.wait(job)
    site.wait_until(lambda: not site.leftovers())


def test_workers_are_jobs_beside_that_of_the_store_and_may_go(site: Site) -> None:
    require(importlib.util.find_spec("dask_jobqueue") is not None, "dask-jobqueue is missing")
    shown = (ROOT / "docs/user/run.md").read_text().split("```python\n")[1].split("```")[0]
    assert shown in EXAMPLE.read_text()
    example = shlex.join([sys.executable, str(EXAMPLE), str(site.workflow)])
    job = site.submit(
        3,
        f'eval "$(intarsia up {site.mount} {site.up_options} --discard)"',
        f"cp {site.inputs}/text $INTARSIA_MOUNT",
        f"{example} 3 --directory $INTARSIA_MOUNT --json > {site.summary}",
        f"cp {site.mount}/words {site.directory}",
        f"intarsia down {site.mount}",
    )
    site.wait_for_gate()
    listed = site.slurm.run("squeue", "-h", "-o", "%N %i").splitlines()
    job_on = dict(line.split() for line in listed)
    assert job_on.pop("n[1-3]") == job
    # Each host of the store has one worker, and there are no others.
    assert sorted(job_on) == ["n1", "n2", "n3"]
    node = (site.gate / "2").read_text().strip()
    site.slurm.run("scancel", job_on[node])
    site.go.touch()
    said = site.wait(job)
    told = json.loads(site.summary.read_text())
    assert (told["tasks"]["done"], told["workers_lost"]) == (4, 1), said
    assert (site.gate / "2").read_text().strip() != node
    assert (site.directory / "words").read_text().strip() == "1200000"
    site.wait_until(lambda: not site.leftovers())
