"""Jobs of a real Slurm prefer the nodes that hold their input, on a store over four hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from intarsia.engines.slurm import main, option, preferred
from lab_hosts import Hosts, four_hosts
from runs import ENVIRONMENT
from slurm_site import slurm_site

# Above what stands beside its inode, also when packed.
PART_BYTES = 2_000_000


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over four hosts."""
    with four_hosts("slurm-") as hosts:
        yield hosts


@pytest.fixture
def job(hosts: Hosts) -> Path:
    """A directory with a file of the fourth host, and a larger and a small one of the third."""
    directory = hosts.new_directory()
    for host, name, size in ((4, "a", 1), (3, "b", 2)):
        path = hosts.store.mounts[host - 1] / directory.name / name
        path.write_bytes(os.urandom(size * PART_BYTES))
    (directory / "small").write_text("beside its inode")
    return directory


def test_hosts_are_named_by_the_bytes_that_they_hold(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preferred([job / "a"]) == ("n4",)
    assert preferred([job], nodes=4) == ("n3", "n4")
    assert preferred([job / "small"]) == ()
    assert main([str(job / "a"), str(job / "b"), "--nodes", "2"]) == 0
    assert main([str(job / "b"), "--form", "nodelist"]) == 0
    assert main([str(job / "small")]) == 0
    assert capsys.readouterr().out == "--prefer=n3|n4\n--nodelist=n3\n"
    assert main([str(job / "none"), str(job / "a")]) == 1
    assert "none: No such file or directory" in capsys.readouterr().err
    assert main([__file__]) == 1
    assert "lies in no store" in capsys.readouterr().err


def test_a_job_runs_on_the_node_of_its_input_and_elsewhere_while_that_is_busy(
    job: Path, tmp_path: Path
) -> None:
    with slurm_site(tmp_path.resolve()) as slurm:
        assert slurm.node_of() == "n1", "the first node, where nothing is preferred"
        for name, node in (("a", "n4"), ("b", "n3")):
            words = [sys.executable, "-m", "intarsia.engines.slurm", str(job / name)]
            said = subprocess.run(
                words, capture_output=True, text=True, check=True, env=ENVIRONMENT, timeout=60
            )
            assert slurm.node_of(*said.stdout.split()) == node
        held = slurm.run("sbatch", "--parsable", "--nodelist=n3", "--wrap=sleep 1000").strip()
        try:
            assert slurm.node_of(option(["n3"])) != "n3"
        finally:
            slurm.cancel(held)
