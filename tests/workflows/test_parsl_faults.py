"""Parsl when something is killed in the middle: it ends right, or says what is missing.

All apps of the second step are halfway, and those of the first have ended, when there is killed

| what | files have | and then |
|---|---|---|
| a worker | one copy | its app is tried again; the program ends right |
| the workers of a host, with their manager | one copy | the same |
| the node of a host, also the first | two copies | its app is tried elsewhere; ends right |
| the node of a host | one copy | what it held is named; once it is back, begun again, right |
| the program | one copy | interchanges and workers end too; begun again, all is right |
| the links of a host are cut for 4 seconds | one copy | all waits for them, and ends right |

Whatever had ended before is not done twice, as Parsl's checkpoints have it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from halting_chains import (
    FIRST,
    Chains,
    at_the_gate,
    cut_a_host_off_for_a_while,
    kill_a_node_of_what_has_copies,
    kill_a_node_of_what_has_no_copies,
    kill_the_program,
)
from lab_hosts import Hosts, lab_hosts
from store_processes import has_one, kill

#: As the example of the users' page, with checkpoints.
PROGRAM = r"""
import sys
import parsl
from intarsia.engines.parsl import placed_executors
from parsl import Config, File, python_app
from parsl.dataflow.memoization import BasicMemoizer

directory, step, shell, address, place = sys.argv[1:]

@python_app(executors=["intarsia"], cache=True)
def made(step, name, inputs=(), outputs=()):
    import subprocess
    words = [step, name, outputs[0].filepath, *(one.filepath for one in inputs)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{name} ended with {done.returncode}: {done.stderr}")

def file(name):
    return File(f"intarsia://{directory}/{name}")

executors = placed_executors(["n1", "n2", "n3"], address=address, shell=shell, silent_s=3)
memoizer = BasicMemoizer(checkpoint_mode="task_exit")
runs = {"run_dir": f"{place}/runinfo", "strategy_period": 0.5, "retries": 2}
with parsl.load(Config(executors=executors, memoizer=memoizer, **runs)):
    last = []
    for k in (1, 2, 3):
        first = made(step, f"first-{k}", inputs=[file(f"seed-{k}")], outputs=[file(f"middle-{k}")])
        second = made(step, f"second-{k}", inputs=first.outputs, outputs=[file(f"last-{k}")])
        last.append(second.outputs[0])
    made(step, "total", inputs=last, outputs=[file("total")]).result()
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over three hosts."""
    with lab_hosts("parsl-", 3) as hosts:
        yield hosts


class Apps(Chains):
    """The chains as apps of Parsl, each host with a worker for them."""

    WORDS = ("interchange", "process_worker_pool", "multiprocessing.spawn")

    def command(self) -> list[str]:
        """A program with Parsl in it."""
        program = self.place / "story.py"
        program.write_text(PROGRAM)
        words = [self.common, self.step, self.hosts.shell, "10.77.0.1", self.place]
        return [sys.executable, str(program), *map(str, words)]


def test_a_worker_is_killed(hosts: Hosts, tmp_path: Path) -> None:
    story = Apps(hosts, tmp_path, copies=False)
    with at_the_gate(story) as goes:
        steps = story.running("n2", str(story.step))
        # Of all that was spawned there the worker alone has begun a step.
        begun_by = [step.parent() for step in steps]
        workers = [one for one in begun_by if one and has_one(one, "multiprocessing.spawn")]
        kill([*workers, *steps])
        story.open_the_gate()
        assert story.end(goes) == 0, story.text()


def test_the_workers_of_a_host_are_killed_with_their_manager(hosts: Hosts, tmp_path: Path) -> None:
    story = Apps(hosts, tmp_path, copies=False)
    with at_the_gate(story) as goes:
        kill(story.running("n2"))
        story.open_the_gate()
        assert story.end(goes) == 0, story.text()


@pytest.mark.parametrize("host", [FIRST, "n3"])
def test_the_node_of_a_worker_is_killed_and_files_have_copies(
    host: str, hosts: Hosts, tmp_path: Path
) -> None:
    story = Apps(hosts, tmp_path, copies=True)
    kill_a_node_of_what_has_copies(story, host, f"host {host} has lost the store")


def test_the_node_of_a_worker_is_killed_and_files_have_no_copies(
    hosts: Hosts, tmp_path: Path
) -> None:
    kill_a_node_of_what_has_no_copies(Apps(hosts, tmp_path, copies=False))


def test_the_program_is_killed(hosts: Hosts, tmp_path: Path) -> None:
    kill_the_program(Apps(hosts, tmp_path, copies=False))


def test_a_host_is_cut_off_for_a_while(hosts: Hosts, tmp_path: Path) -> None:
    cut_a_host_off_for_a_while(Apps(hosts, tmp_path, copies=False))
