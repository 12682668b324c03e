"""Nextflow on a real Slurm: tasks prefer the nodes that hold their input, of four hosts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from intarsia.learn.source import observed_in
from intarsia.locate import locate
from lab_hosts import Hosts, four_hosts
from nextflow_command import EXAMPLES, Nextflow, require_nextflow, write_parts
from runs import ENVIRONMENT
from slurm_site import slurm_site


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over four hosts."""
    require_nextflow()
    with four_hosts("nextflow-") as hosts:
        yield hosts


def test_tasks_ask_for_the_node_of_their_input(hosts: Hosts, tmp_path: Path) -> None:
    job = hosts.new_directory()
    write_parts(hosts, job)
    with slurm_site(tmp_path.resolve()) as slurm:
        nextflow = Nextflow(slurm, EXAMPLES / "nextflow_pipeline.nf", job)
        nextflow.run("-with-trace", str(tmp_path / "trace.txt"))
        told = slurm.run("scontrol", "show", "job")
    assert sorted(path.name for path in (job / "packed").iterdir()) == [
        "3.txt.clean.gz",
        "4.txt.clean.gz",
    ]
    wanted = {}
    for header in (job / "work").glob("*/*/.command.run"):
        text = header.read_text()
        name = text.split("### name: '")[1].split("'")[0]
        wanted[name] = [
            line.split("--prefer=")[1] for line in text.splitlines() if "--prefer" in line
        ]
    # All mounts are on one machine here: what a job writes is born where Nextflow's own mount is.
    cleaned = next((job / "work").glob("*/*/3.txt.clean"))
    (home,) = locate([cleaned]).files[0].hosts
    asked = sorted(
        one for name, found in wanted.items() for one in found if name.startswith("clean")
    )
    assert asked == ["n3", "n4"]
    assert all(found == [home] for name, found in wanted.items() if name.startswith("pack"))
    nodes = {
        block.split("Features=")[1].split()[0]: block.split(" NodeList=")[1].split()[0]
        for block in told.split("\n\n")
        if "JobName=nf-clean" in block
    }
    assert nodes == {"n3": "n3", "n4": "n4"}
    check_what_is_learned(tmp_path / "trace.txt", job / "work", home)


@pytest.mark.parametrize("form", ["nodelist", "none"])
def test_tasks_run_beside_their_input_where_nodes_are_hosts_and_without_advice_do_not(
    form: str, hosts: Hosts, tmp_path: Path
) -> None:
    job = hosts.new_directory()
    parts = ("30", "31", "40", "41")
    write_parts(hosts, job, parts)
    with slurm_site(tmp_path.resolve(), hosts) as slurm:
        nextflow = Nextflow(slurm, EXAMPLES / "nextflow_pipeline.nf", hosts.mount / job.name)
        nextflow.run("--intarsia_form", form)
    homes = []
    for part in parts:
        found = (job / "work").glob(f"*/*/{part}.txt.clean")
        cleaned = next(path for path in found if not path.is_symlink())
        steps = [cleaned, job / "packed" / f"{part}.txt.clean.gz"]
        # A file is born where it is written, so that this is where the tasks ran.
        homes.append([one.hosts for one in locate(steps).files])
    beside = [[(f"n{part[0]}",)] * 2 for part in parts]
    assert (homes == beside) == (form == "nodelist")


def check_what_is_learned(trace: Path, work: Path, home: str) -> None:
    """What the run teaches: its files are read where they lie, and need no hints."""
    words = [sys.executable, "-m", "intarsia.learn", str(trace), "--work", str(work), "--json"]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    rules = {(one["maker"], one["names"]): one for one in json.loads(done.stdout)}
    cleaned = rules["clean", "*.clean"]
    assert (cleaned["readers"], cleaned["files"], cleaned["hints"]) == (["pack"], 2, {})
    assert "lie where they are made" in cleaned["why"]
    observed = observed_in(trace, work)
    assert {file.made_on for file in observed.files} == {home}
    assert all(file.made_s is not None for file in observed.files)
