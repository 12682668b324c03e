"""Nextflow when something is killed in the middle: it ends right.

That Nextflow itself is killed is not tried: as Maven has it, it keeps nothing for `-resume` in any
directory, and begins tasks again in the directories of those before.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from intarsia.locate import locate
from lab_hosts import Hosts, four_hosts
from nextflow_command import EXAMPLES, LIMIT_S, Nextflow, require_nextflow
from runs import wait_until
from slurm_site import Slurm, slurm_site
from store_processes import kill, mend, processes

#: Above what stands beside its inode, also when packed.
PART_LINES = 60_000
PARTS = ("3", "4")
#: As the example of the users' page, but jobs say that they have begun, and pack waits at a gate.
PIPELINE = r"""
include {{ beside }} from './intarsia.nf'

process clean {{
    executor 'slurm'
    clusterOptions {{ beside(part) }}
    errorStrategy 'retry'
    maxRetries 3
    input: path part
    output: path "${{part}}.clean"
    script: "echo x >> {gate}/clean-${{part}}; grep -v '^#' ${{part}} > ${{part}}.clean"
}}

process pack {{
    executor 'slurm'
    clusterOptions {{ beside(cleaned) }}
    errorStrategy 'retry'
    maxRetries 3
    publishDir params.out, mode: 'copy'
    input: path cleaned
    output: path "${{cleaned}}.gz"
    script: '''
    echo x >> {gate}/pack-!{{cleaned}}
    timeout {limit_s} sh -c 'until [ -e {gate}/go ]; do sleep 0.1; done'
    gzip -1 < !{{cleaned}} > !{{cleaned}}.gz
    '''
}}

workflow {{
    Channel.fromPath("${{params.parts}}/*.txt") | clean | pack
}}
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over four hosts."""
    require_nextflow()
    with four_hosts("nextflow-") as hosts:
        yield hosts


class Story:
    """A pipeline whose last jobs wait at a gate."""

    def __init__(self, hosts: Hosts, slurm: Slurm, place: Path) -> None:
        self.job = hosts.new_directory()
        self.said = place / "said"
        self._gate = place / "gate"
        self._gate.mkdir()
        self._lines = {}
        (self.job / "parts").mkdir()
        for part in PARTS:
            text = "\n".join(os.urandom(16).hex() for _ in range(PART_LINES)) + "\n"
            self._lines[part] = text
            path = hosts.store.mounts[int(part) - 1] / self.job.name / f"parts/{part}.txt"
            path.write_text(f"# a part\n{text}")
        shutil.copy(EXAMPLES / "intarsia.nf", place)
        pipeline = place / "story.nf"
        text = PIPELINE.format(gate=self._gate, limit_s=LIMIT_S).replace(
            "script: '''", "shell: '''"
        )
        pipeline.write_text(text)
        self.nextflow = Nextflow(slurm, pipeline, self.job)
        self.options = ("--intarsia_python", sys.executable)

    def start(self) -> subprocess.Popen[bytes]:
        """Begin, and wait until all jobs of the last step have."""
        goes = self.nextflow.start(self.said, *self.options)

        def have_begun() -> bool:
            assert goes.poll() is None, self.said.read_text()
            return all(self.begun(f"pack-{part}.txt.clean") for part in PARTS)

        try:
            wait_until(have_begun)
        except BaseException:
            goes.kill()
            goes.wait()
            raise
        return goes

    def begun(self, name: str) -> int:
        """How often a job has begun."""
        path = self._gate / name
        return len(path.read_text().split()) if path.exists() else 0

    def open_the_gate(self) -> None:
        (self._gate / "go").touch()

    def check(self) -> None:
        """All results are there, and right."""
        for part, lines in self._lines.items():
            packed = (self.job / "packed" / f"{part}.txt.clean.gz").read_bytes()
            assert gzip.decompress(packed).decode() == lines


def ended(story: Story, goes: subprocess.Popen[bytes]) -> None:
    """Let the jobs go on, and wait until a run that was begun has ended well."""
    story.open_the_gate()
    try:
        code = goes.wait(LIMIT_S)
    finally:
        goes.kill()
    assert code == 0, story.said.read_text()


def test_a_job_is_killed_and_runs_again(hosts: Hosts, tmp_path: Path) -> None:
    place = tmp_path.resolve()
    with slurm_site(place) as slurm:
        story = Story(hosts, slurm, place)
        goes = story.start()
        try:
            jobs = slurm.run("squeue", "-h", "-o", "%i").split()
            slurm.cancel(jobs[0])
        finally:
            ended(story, goes)
    story.check()
    assert sorted(story.begun(f"pack-{part}.txt.clean") for part in PARTS) == [1, 2]


def test_a_node_process_is_killed_and_begun_again(hosts: Hosts, tmp_path: Path) -> None:
    place = tmp_path.resolve()
    with slurm_site(place) as slurm:
        story = Story(hosts, slurm, place)
        goes = story.start()
        try:
            found = (story.job / "work").glob("*/*/3.txt.clean")
            cleaned = next(path for path in found if not path.is_symlink())
            (home,) = locate([cleaned]).files[0].hosts
            # Where all jobs run is killed in no story here: their directory would be gone.
            kill(processes(hosts, "n3" if home == "n1" else home, "intarsia node"))
            mend(hosts)
        finally:
            ended(story, goes)
    story.check()
