"""Snakemake when something is killed in the middle: it ends right, or says what is missing.

All jobs of the second step are halfway, and those of the first have ended, when there is killed

| what | files have | and then |
|---|---|---|
| the node of a host | two copies | the job there begins elsewhere; the command ends right |
| the node of a host | one copy | what it held is named; once it is back, begun again, right |
| the node of the first host | two copies | the command fails; once it is back, begun again, right |
| a job | one copy | it is tried again |
| the main process | one copy | its jobs end too; begun again, all is right |
| the links of a host are cut for 4 seconds | one copy | all waits for them, and ends right |

Whatever had ended before is not done twice.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from halting_chains import FIRST, LOST, Chains, at_the_gate, cut_a_host_off_for_a_while
from lab_hosts import Hosts, lab_hosts
from runs import wait_until
from store_processes import kill, mend

SNAKEFILE = """
rule total:
    input: expand("last-{{k}}", k=[1, 2, 3])
    output: "total"
    shell: "{step} total {{output}} {{input}}"
rule second:
    input: "middle-{{k}}"
    output: "last-{{k}}"
    shell: "{step} second-{{wildcards.k}} {{output}} {{input}}"
rule first:
    input: "seed-{{k}}"
    output: "middle-{{k}}"
    shell: "{step} first-{{wildcards.k}} {{output}} {{input}}"
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over three hosts."""
    with lab_hosts("snakemake-", 3) as hosts:
        yield hosts


class Rules(Chains):
    """The chains as rules of Snakemake, each host with a core for them."""

    def __init__(self, hosts: Hosts, place: Path, *, copies: bool) -> None:
        super().__init__(hosts, place, copies=copies)
        self._snakefile = place / "Snakefile"
        self._snakefile.write_text(SNAKEFILE.format(step=self.step))

    def command(self) -> list[str]:
        """The command of the users' page."""
        words = [sys.executable, "-m", "snakemake", "--executor", "intarsia", "--jobs", "3"]
        words += ["--intarsia-hosts", "n1,n2,n3", "--intarsia-shell", self.hosts.shell]
        return [*words, "--snakefile", str(self._snakefile), "--directory", str(self.common)]

    def go_on(self) -> None:
        """Begin again where it stopped, as the page says; it ends right."""
        for option in ("--unlock", "--rerun-incomplete"):
            assert self.end(self.start(option)) == 0, self.text()


def test_the_node_of_a_job_is_killed_and_files_have_copies(hosts: Hosts, tmp_path: Path) -> None:
    story = Rules(hosts, tmp_path, copies=True)
    with at_the_gate(story) as goes:
        story.kill_node("n3")
        story.open_the_gate()
        assert story.end(goes) == 0, story.text()
        assert "n3 does not answer or does not see" in story.text()


def test_the_node_of_a_job_is_killed_and_files_have_no_copies(hosts: Hosts, tmp_path: Path) -> None:
    story = Rules(hosts, tmp_path, copies=False)
    with at_the_gate(story) as goes:
        _, home = story.held_elsewhere()
        story.kill_node(home)
        story.open_the_gate()
        assert story.end(goes) != 0
        assert f"{home} does not answer or does not see" in story.text()
        logs = [*(story.job / ".snakemake/intarsia").glob("second-*.log")]
        assert any(re.search(LOST, log.read_text()) for log in logs), story.text()
        mend(hosts)
        story.go_on()


def test_the_node_of_the_main_process_is_killed(hosts: Hosts, tmp_path: Path) -> None:
    story = Rules(hosts, tmp_path, copies=True)
    with at_the_gate(story) as goes:
        story.kill_node(FIRST)
        story.open_the_gate()
        assert story.end(goes) != 0
        mend(hosts)
        story.go_on()


def test_a_job_is_killed(hosts: Hosts, tmp_path: Path) -> None:
    story = Rules(hosts, tmp_path, copies=False)
    with at_the_gate(story, "--retries", "1") as goes:
        kill(story.running("n2", "--target-jobs"))
        story.open_the_gate()
        assert story.end(goes) == 0, story.text()


def test_the_main_process_is_killed(hosts: Hosts, tmp_path: Path) -> None:
    story = Rules(hosts, tmp_path, copies=False)
    with at_the_gate(story) as goes:
        kill(story.running(FIRST, "--intarsia-shell"))
        story.end(goes)
        # Before they are begun again, or two would write the same files.
        wait_until(lambda: not story.running())
        story.open_the_gate()
        story.go_on()


def test_a_host_is_cut_off_for_a_while(hosts: Hosts, tmp_path: Path) -> None:
    cut_a_host_off_for_a_while(Rules(hosts, tmp_path, copies=False), "--retries", "2")
