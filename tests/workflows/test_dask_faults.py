"""Dask when something is killed in the middle: it ends right, or says what is missing.

All tasks of the second step are halfway, and those of the first have ended, when there is killed

| what | files have | and then |
|---|---|---|
| a worker | one copy | its task begins at another; the program ends right |
| the node of a host, also the first | two copies | its task is tried elsewhere; ends right |
| the node of a host | one copy | what it held is named; once it is back, submitted again, right |
| the program, with the scheduler | one copy | the workers end too; submitted again, all is right |
| the links of a host are cut for 4 seconds | one copy | all waits for them, and ends right |

Whatever had ended before is not done twice.
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
from store_processes import kill

#: As the example of the users' page; what is there already is not made again.
PROGRAM = r"""
import os, subprocess, sys
from contextlib import ExitStack
from pathlib import Path
from distributed import Client, LocalCluster
from intarsia.engines import dask as beside_data
from intarsia.engines.shell import on_host

directory, step, shell, address = Path(sys.argv[1]), *sys.argv[2:]

def made(name, target, sources, *_):
    if not os.path.exists(target):
        part = f"{target}.{os.getpid()}"
        done = subprocess.run([step, name, part, *sources], capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{name} ended with {done.returncode}: {done.stderr}")
        os.replace(part, target)

with (
    LocalCluster(n_workers=0, host=address, dashboard_address=None) as cluster,
    ExitStack() as workers,
    Client(cluster) as client,
):
    worker = f"{sys.executable} -m distributed.cli.dask_worker {cluster.scheduler_address}"
    for host in ("n1", "n2", "n3"):
        command = f"exec {worker} --name {host} --nthreads 1 --no-nanny --no-dashboard"
        words = on_host(shell, host, command, Path("/tmp"))
        process = workers.enter_context(subprocess.Popen(words, stdin=subprocess.DEVNULL))
        workers.callback(process.terminate)
    client.wait_for_workers(3, timeout=120)
    beside_data.install(client, directory)
    last = []
    for k in (1, 2, 3):
        seed, middle, end = (str(directory / f"{name}-{k}") for name in ("seed", "middle", "last"))
        first = client.submit(made, f"first-{k}", middle, [seed], retries=2)
        last.append(client.submit(made, f"second-{k}", end, [middle], first, retries=2))
    ends = [str(directory / f"last-{k}") for k in (1, 2, 3)]
    client.submit(made, "total", str(directory / "total"), ends, last, retries=2).result()
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over three hosts."""
    with lab_hosts("dask-", 3) as hosts:
        yield hosts


class Tasks(Chains):
    """The chains as tasks of Dask, each host with a worker for them."""

    # A worker has no word of ours in its command any more when it has begun.
    WORDS = ("distributed.cli.dask_worker", "dask worker [")

    def command(self) -> list[str]:
        """A program with the scheduler in it."""
        program = self.place / "story.py"
        program.write_text(PROGRAM)
        words = [self.common, self.step, self.hosts.shell, "10.77.0.1"]
        return [sys.executable, str(program), *map(str, words)]


def test_a_worker_is_killed(hosts: Hosts, tmp_path: Path) -> None:
    story = Tasks(hosts, tmp_path, copies=False)
    with at_the_gate(story) as goes:
        kill(story.running("n2", *story.WORDS))
        story.open_the_gate()
        assert story.end(goes) == 0, story.text()


@pytest.mark.parametrize("host", [FIRST, "n3"])
def test_the_node_of_a_worker_is_killed_and_files_have_copies(
    host: str, hosts: Hosts, tmp_path: Path
) -> None:
    story = Tasks(hosts, tmp_path, copies=True)
    kill_a_node_of_what_has_copies(story, host, f"does not see {story.common} any more")


def test_the_node_of_a_worker_is_killed_and_files_have_no_copies(
    hosts: Hosts, tmp_path: Path
) -> None:
    kill_a_node_of_what_has_no_copies(Tasks(hosts, tmp_path, copies=False))


def test_the_program_is_killed_with_the_scheduler(hosts: Hosts, tmp_path: Path) -> None:
    kill_the_program(Tasks(hosts, tmp_path, copies=False))


def test_a_host_is_cut_off_for_a_while(hosts: Hosts, tmp_path: Path) -> None:
    cut_a_host_off_for_a_while(Tasks(hosts, tmp_path, copies=False))
