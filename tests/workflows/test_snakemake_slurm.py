"""Snakemake's own executor for Slurm, told by the scheduler which nodes to prefer."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from intarsia.tag import hints_on
from lab_hosts import Hosts, four_hosts
from runs import ENVIRONMENT
from shell import both_outputs
from slurm_site import slurm_site

LIMIT_S = 200
# Above what stands beside its inode, also when packed.
PART_BYTES = 2_000_000
SNAKEFILE = """
rule all:
    input: "where/a", "where/b"
rule where:
    input: "parts/{part}", access.multi("small")
    output: "where/{part}"
    shell: "echo $SLURMD_NODENAME > {output}"
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("snakemake_executor_plugin_slurm") is None,
    reason="SKIPPED: pip install snakemake-executor-plugin-slurm, which has Snakemake use Slurm",
)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over four hosts."""
    with four_hosts("snakemake-slurm-") as hosts:
        yield hosts


@pytest.mark.parametrize(
    "options", [["--scheduler-intarsia-slurm"], ["--scheduler-intarsia-hints", "none"]]
)
def test_jobs_prefer_the_nodes_of_their_input_which_gets_its_hints(
    options: list[str], hosts: Hosts, tmp_path: Path
) -> None:
    job = hosts.new_directory()
    (job / "parts").mkdir()
    for host, name in ((4, "a"), (3, "b")):
        path = hosts.store.mounts[host - 1] / job.name / "parts" / name
        path.write_bytes(os.urandom(PART_BYTES))
    (job / "small").write_text("beside its inode")
    (job / "Snakefile").write_text(SNAKEFILE)
    with slurm_site(tmp_path.resolve()) as slurm:
        words = [sys.executable, "-m", "snakemake", "--directory", str(job), "--jobs", "2"]
        words += ["--executor", "slurm", "--scheduler", "intarsia", *options]
        words += ["--snakefile", str(job / "Snakefile"), "--slurm-status-command", "squeue"]
        words += ["--slurm-init-seconds-before-status-checks", "1"]
        words += ["--seconds-between-status-checks", "1", "--default-resources", "mem_mb=1"]
        words += ["slurm_partition='all'", "slurm_account='none'"]
        # The executor keeps variables of Slurm from its steps, and with them where this one is.
        srun = tmp_path / "srun"
        conf = slurm.directory / "slurm.conf"
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={conf} exec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)
        programs = f"{tmp_path}:{os.environ['PATH']}"
        environment = ENVIRONMENT | {"SLURM_CONF": str(conf), "PATH": programs}
        both_outputs(words, limit_s=LIMIT_S, env=environment)
    nodes = [(job / "where" / name).read_text().strip() for name in "ab"]
    is_told = options == ["--scheduler-intarsia-slurm"]
    assert (nodes == ["n4", "n3"]) == is_told
    assert hints_on(job / "small") == ({"pattern": "broadcast"} if is_told else {})
