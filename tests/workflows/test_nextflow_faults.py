"""Nextflow when something is killed in the middle: it ends right.

That Nextflow itself is killed is not tried: as Maven has it, it keeps nothing for `-resume` in any
directory, and begins tasks again in the directories of those before.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from intarsia.locate import locate
from lab_hosts import Hosts, four_hosts
from nextflow_command import EXAMPLES, LIMIT_S, PARTS, Nextflow, require_nextflow, write_parts
from runs import wait_until
from slurm_site import Slurm, slurm_site
from store_processes import kill, mend, processes

#: As the example of the users' page, but pack says that it has begun, and waits at a gate.
PIPELINE = r"""
include {{ beside }} from './intarsia.nf'

process clean {{
    executor 'slurm'
    clusterOptions {{ beside(part) }}
    errorStrategy 'retry'
    maxRetries 3
    input: path part
    output: path "${{part}}.clean"
    script: "grep -v '^#' ${{part}} > ${{part}}.clean"
}}

process pack {{
    executor 'slurm'
    clusterOptions {{ beside(cleaned) }}
    errorStrategy 'retry'
    maxRetries 3
    publishDir params.out, mode: 'copy'
    input: path cleaned
    output: path "${{cleaned}}.gz"
    shell: '''
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
        self._cleaned = write_parts(hosts, self.job)
        shutil.copy(EXAMPLES / "intarsia.nf", place)
        pipeline = place / "story.nf"
        pipeline.write_text(PIPELINE.format(gate=self._gate, limit_s=LIMIT_S))
        self.nextflow = Nextflow(slurm, pipeline, self.job)

    def start(self) -> subprocess.Popen[bytes]:
        """Begin, and wait until all jobs of the last step have."""
        goes = self.nextflow.start(self.said)

        def have_begun() -> bool:
            assert goes.poll() is None, self.said.read_text()
            return all(self.begun())

        try:
            wait_until(have_begun)
        except BaseException:
            goes.kill()
            goes.wait()
            raise
        return goes

    def begun(self) -> list[int]:
        """How often the last job of each part has begun."""
        said = [self._gate / f"pack-{part}.txt.clean" for part in PARTS]
        return [len(path.read_text().split()) if path.exists() else 0 for path in said]

    def open_the_gate(self) -> None:
        (self._gate / "go").touch()

    def check(self) -> None:
        """All results are there, and right."""
        for part, cleaned in self._cleaned.items():
            packed = (self.job / "packed" / f"{part}.txt.clean.gz").read_bytes()
            assert gzip.decompress(packed).decode() == cleaned


@contextmanager
def told(hosts: Hosts, place: Path) -> Iterator[tuple[Story, Slurm]]:
    """Have a story come to its gate; then let its jobs go on, and see that it ends right."""
    with slurm_site(place) as slurm:
        story = Story(hosts, slurm, place)
        goes = story.start()
        try:
            yield story, slurm
        finally:
            story.open_the_gate()
            try:
                code = goes.wait(LIMIT_S)
            finally:
                goes.kill()
        assert code == 0, story.said.read_text()
    story.check()


def test_a_job_is_killed_and_runs_again(hosts: Hosts, tmp_path: Path) -> None:
    with told(hosts, tmp_path.resolve()) as (story, slurm):
        slurm.cancel(slurm.jobs()[0])
    assert sorted(story.begun()) == [1, 2]


def test_a_node_process_is_killed_and_begun_again(hosts: Hosts, tmp_path: Path) -> None:
    with told(hosts, tmp_path.resolve()) as (story, _):
        found = (story.job / "work").glob("*/*/3.txt.clean")
        cleaned = next(path for path in found if not path.is_symlink())
        (home,) = locate([cleaned]).files[0].hosts
        # Where all jobs run is killed in no story here: their directory would be gone.
        kill(processes(hosts, "n3" if home == "n1" else home, "intarsia node"))
        mend(hosts)
