"""Nextflow when something is killed in the middle, or Nextflow itself: it ends right."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from intarsia.locate import locate
from lab_hosts import ROOT, Hosts, four_hosts
from nextflow_command import EXAMPLES, LIMIT_S, PARTS, Nextflow, require_nextflow, write_parts
from runs import wait_until
from slurm_site import Slurm, slurm_site
from store_processes import kill, mend, processes

HALF_BYTES = 1000
#: What the users' page has for work directories of tasks whose end Nextflow does not know.
CLEAN_UP = (
    (ROOT / "docs/user/engines.md")
    .read_text()
    .split("<!-- not run: tests/workflows/test_nextflow_faults.py")[1]
    .split("```")[1]
    .removeprefix("sh\n")
)
#: As the example of the users' page, but jobs say that they have begun, and pack waits at a gate
#: with a half result.
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
    publishDir params.out, mode: 'copy', overwrite: true
    input: path cleaned
    output: path "${{cleaned}}.gz"
    shell: '''
    head -c {half_bytes} !{{cleaned}} > !{{cleaned}}.gz
    echo x >> {gate}/pack-!{{cleaned}}
    timeout --foreground {limit_s} sh -c \
        'until [ -e {gate}/go ] || [ -e {gate}/go-!{{cleaned}} ]; do sleep 0.1; done'
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


def end(goes: subprocess.Popen[bytes]) -> None:
    """Kill Nextflow, and what began it on its host."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(goes.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    goes.kill()
    goes.wait()


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
        pipeline.write_text(
            PIPELINE.format(gate=self._gate, limit_s=LIMIT_S, half_bytes=HALF_BYTES)
        )
        # Where the nodes are hosts, all of them have the store at one path.
        seen = self.job if slurm.hosts is None else hosts.mount / self.job.name
        self.nextflow = Nextflow(slurm, pipeline, seen)

    def start(self) -> subprocess.Popen[bytes]:
        """Begin, and wait until all jobs of the last step have."""
        goes = self.nextflow.start(self.said)

        def have_begun() -> bool:
            assert goes.poll() is None, self.said.read_text()
            return all(self.begun())

        try:
            wait_until(have_begun, limit_s=LIMIT_S)
        except BaseException:
            end(goes)
            raise
        return goes

    def begun(self, step: str = "pack") -> list[int]:
        """How often the job of each part has begun with a step."""
        names = {"clean": "clean-{}.txt", "pack": "pack-{}.txt.clean"}
        said = [self._gate / names[step].format(part) for part in PARTS]
        return [len(path.read_text().split()) if path.exists() else 0 for path in said]

    def open_the_gate(self, part: str = "") -> None:
        """Have all jobs go on, or that of one part."""
        (self._gate / (f"go-{part}.txt.clean" if part else "go")).touch()

    def result(self, part: str) -> Path:
        """The file that the last job of a part makes, where it makes it."""
        found = (self.job / "work").glob(f"*/*/{part}.txt.clean.gz")
        return next(path for path in found if not path.is_symlink())

    def has_kept(self, part: str) -> bool:
        """Whether Nextflow will know that the last job of a part is done."""
        work = self.result(part).parent.relative_to(self.job)
        return self.nextflow.has_kept(work)

    def check(self) -> None:
        """All results are there, and right."""
        for part, cleaned in self._cleaned.items():
            packed = self.published(part).read_bytes()
            assert gzip.decompress(packed).decode() == cleaned

    def published(self, part: str) -> Path:
        """Where the result of a part is copied to."""
        return self.job / "packed" / f"{part}.txt.clean.gz"


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
                end(goes)
        assert code == 0, story.said.read_text()
    story.check()


def test_a_job_is_killed_and_runs_again(hosts: Hosts, tmp_path: Path) -> None:
    with told(hosts, tmp_path.resolve()) as (story, slurm):
        # Those of the step before may still be listed, for their nodes to clean up.
        slurm.cancel(slurm.jobs("nf-pack")[0])
    assert sorted(story.begun()) == [1, 2]


def test_a_node_process_is_killed_and_begun_again(hosts: Hosts, tmp_path: Path) -> None:
    with told(hosts, tmp_path.resolve()) as (story, _):
        found = (story.job / "work").glob("*/*/3.txt.clean")
        cleaned = next(path for path in found if not path.is_symlink())
        (home,) = locate([cleaned]).files[0].hosts
        # Where all jobs run is killed in no story here: their directory would be gone.
        kill(processes(hosts, "n3" if home == "n1" else home, "intarsia node"))
        mend(hosts)


@pytest.mark.parametrize("left", ["is cancelled", "goes on"])
def test_nextflow_is_killed_and_resumes(left: str, hosts: Hosts, tmp_path: Path) -> None:
    whole, half = PARTS
    place = tmp_path.resolve()
    with slurm_site(place, hosts) as slurm:
        story = Story(hosts, slurm, place)
        goes = story.start()
        try:
            story.open_the_gate(whole)
            wait_until(lambda: story.has_kept(whole))
        finally:
            end(goes)
        assert story.result(half).stat().st_size == HALF_BYTES
        # As if it had been killed while it copied a result.
        (story.job / "packed").mkdir(exist_ok=True)
        story.published(whole).write_bytes(b"half")
        if left == "is cancelled":
            for job in slurm.jobs():
                slurm.cancel(job)
        story.open_the_gate()
        wait_until(lambda: not slurm.jobs())
        story.nextflow.forget(CLEAN_UP)
        said = story.nextflow.run("-resume")
    assert said.count("Cached process > clean") == 2
    assert (story.begun("clean"), story.begun("pack")) == ([1, 1], [1, 2]), said
    story.check()
