"""`intarsia run` when its store goes away under it, for good or for a while."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from conftest import require, take_down
from intarsia.store import Store, call, find_binary, fuse_problem, is_mounted
from lab_hosts import Hosts, lab_hosts
from runs import ENVIRONMENT, Run, assert_gone, run, wait_until
from store_processes import kill, mend, processes

#: Well above the 30 s for which a run waits for its store.
GIVES_UP_S = 90.0
HELP = "help: bring the store up again with `intarsia up`"
#: What tasks do until they are let go: they use the mount, or they do not.
USES, COMPUTES = "while [ ! -e go ]; do sleep 0.05; done", "while :; do sleep 0.05; done"


class Telling:
    """A store of its own, and a run in it: one task that is done, one that waits, and the last."""

    def __init__(self, place: Path, waits: str, *, below: str) -> None:
        """The run is in the directory `below` the mount."""
        self.mount, self._tier = place / "mount", place / "store"
        self.store = Store.up(self.mount, self._tier)
        self.work = self.mount / below
        self.work.mkdir(exist_ok=True)
        self._came = place / "came"
        waits = f"echo > {self._came}; if [ ! -e again ]; then {waits}; fi"
        tasks: dict[str, dict[str, object]] = {
            "soon": {"command": "echo 1 > a", "outputs": ["a"]},
            "late": {"command": f"{waits}; cat a > b", "inputs": ["a"], "outputs": ["b"]},
            "last": {"command": "cat b > c", "inputs": ["b"], "outputs": ["c"]},
        }
        self.workflow = place / "w.yaml"
        self.workflow.write_text(json.dumps({"name": "test", "tasks": tasks}))
        self.options = (f"--directory={self.work}",)
        self._begun: list[Run] = []

    def begin(self, until: Callable[[Run], bool] | None = None) -> Run:
        """Begin the run, and wait until it is in the middle, or something else."""
        goes = Run(self.workflow, *self.options)
        self._begun.append(goes)
        wait_until(lambda: self._came.exists() if until is None else until(goes), goes)
        return goes

    def up(self) -> None:
        """Bring the store up again; the task that waited does not any more."""
        self.store = Store.up(self.mount, self._tier)
        (self.work / "again").touch()

    def kill(self) -> None:
        """Kill the node."""
        os.kill(self.store.pid, signal.SIGKILL)

    def down(self) -> None:
        """Take it down although it is in use."""
        call(self.store.binary, ["down", str(self.mount), "--force"], 60)

    def detach(self) -> None:
        """Unmount it lazily."""
        subprocess.run(["umount", "--lazy", self.mount], check=True)

    def close(self) -> list[str]:
        """End the run, and take the store down by all means."""
        for goes in self._begun:
            goes.process.kill()
            goes.process.communicate()
        if not is_mounted(self.mount) and self.store.is_alive():
            os.kill(self.store.pid, signal.SIGKILL)
            wait_until(lambda: not self.store.is_alive())
            return []
        return take_down(self.store)


def has_worker(goes: Run) -> bool:
    """Whether a worker was begun, which takes a while to join."""
    return any("dask" in " ".join(one.cmdline()) for one in goes.started())


@pytest.fixture(scope="module", autouse=True)
def _can_mount() -> None:
    require(fuse_problem() is None, str(fuse_problem()))
    find_binary()


@contextmanager
def telling(place: Path, waits: str, *, below: str = "work") -> Iterator[Telling]:
    place.mkdir()
    told = Telling(place, waits, below=below)
    try:
        yield told
    finally:
        problems = told.close()
    assert problems == []


def test_a_run_whose_store_goes_for_good_ends_and_goes_on_when_it_is_up(tmp_path: Path) -> None:
    """At once, as each takes as long as a run waits."""
    with ExitStack() as stack:
        stories: list[tuple[Telling, Run, list[psutil.Process]]] = []
        for name, waits, below in (
            ("kill", USES, "work"),
            ("kill", COMPUTES, "."),
            ("down", COMPUTES, "."),
            ("detach", COMPUTES, "work"),
        ):
            place = tmp_path / f"{name}-{len(stories)}"
            told = stack.enter_context(telling(place, waits, below=below))
            goes = told.begin()
            stories.append((told, goes, goes.started()))
            getattr(told, name)()
        for told, goes, started in stories:
            out, said = goes.process.communicate(timeout=GIVES_UP_S)
            assert goes.process.returncode == 1, said
            assert "the store is gone from " in said
            assert "1 done, 2 not run" in said
            assert HELP in said
            assert_gone(started)
            if not is_mounted(told.mount):
                left = [path.name for path in told.mount.iterdir()]
                assert left == [], "something lies where the mount was"
                told.close()
            told.up()
            tasks = run(told.workflow, *told.options)["tasks"]
            assert (tasks["done_before"], tasks["done"]) == (1, 2), out
            assert (told.work / "c").read_text() == "1\n"


def test_a_run_goes_on_when_its_store_comes_back(tmp_path: Path) -> None:
    with telling(tmp_path / "a", COMPUTES) as told:
        goes = told.begin()
        told.kill()
        told.up()
        # Held again by the run that goes on.
        wait_until(lambda: (told.work / "c").exists(), goes)
        out, said = goes.end()
        assert "3 done" in said, out
        assert run(told.workflow, *told.options)["tasks"]["done_before"] == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_waits_for_its_store_ends_when_it_is_told(number: int, tmp_path: Path) -> None:
    with telling(tmp_path / "a", USES) as told:
        goes = told.begin()
        started = goes.started()
        told.down()
        stderr = goes.process.stderr
        assert stderr is not None
        while "nothing begins until it is back" not in (line := stderr.readline()):
            assert line, "it ended without a word"
        goes.process.send_signal(number)
        with suppress(ProcessLookupError):
            goes.process.send_signal(number)
        ended = -number if number == signal.SIGKILL else 128 + number
        assert goes.process.wait(GIVES_UP_S / 3) == ended
        goes.process.communicate()
        assert_gone(started)
        assert list(told.mount.iterdir()) == []
        told.up()
        assert run(told.workflow, *told.options)["tasks"]["done_before"] == 1


def test_a_run_whose_store_goes_before_its_first_task_waits_for_it_too(tmp_path: Path) -> None:
    with telling(tmp_path / "a", COMPUTES) as told:
        (told.work / "again").touch()
        goes = told.begin(until=has_worker)
        told.kill()
        told.up()
        assert "3 done" in goes.end()[1]


def test_a_run_that_is_begun_while_its_store_is_down_says_so(tmp_path: Path) -> None:
    with telling(tmp_path / "a", USES) as told:
        told.kill()
        said = Run(told.workflow, *told.options).end(1)[1]
        assert f"{told.work}" in said
        assert "help: the node of its store has ended; `intarsia up` begins it" in said


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over two hosts."""
    with lab_hosts("run-store-", 2) as hosts:
        yield hosts


def servers_stopped(hosts: Hosts) -> list[psutil.Process]:
    """Stop all metadata servers; return them."""
    found = processes(hosts, None, "redis-server")
    for one in found:
        one.suspend()
    return found


@pytest.mark.parametrize("fault", ["nodes killed", "servers stopped"])
def test_a_run_over_hosts_whose_store_goes_from_all_ends_and_goes_on(
    fault: str, hosts: Hosts, tmp_path: Path
) -> None:
    job = hosts.new_directory()
    place, go = hosts.mount / job.name, tmp_path / "go"
    tasks: dict[str, dict[str, object]] = {"soon": {"command": "echo > a", "outputs": ["a"]}}
    for number in range(2):
        gate = f"touch {tmp_path}/came{number}; until [ -e {go} ]; do sleep 0.05; done"
        tasks[f"late-{number}"] = {
            "command": f"{gate}; cat a > b{number}",
            "inputs": ["a"],
            "outputs": [f"b{number}"],
        }
    workflow = tmp_path / "w.yaml"
    workflow.write_text(json.dumps({"tasks": tasks}))
    where = ["--directory", place, "--hosts", "n1,n2", "--address", "10.77.0.1"]
    how = ["--shell", hosts.shell, "--slots", "1", "--lineage"]
    words = [*map(str, (sys.executable, "-m", "intarsia.run", workflow, *where)), *how]
    goes = subprocess.Popen(
        hosts.words("n1", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT,
    )
    stopped: list[psutil.Process] = []
    try:
        wait_until(lambda: len(list(tmp_path.glob("came*"))) == 2)
        if fault == "nodes killed":
            kill(processes(hosts, None, "intarsia node"))
        else:
            stopped = servers_stopped(hosts)
        said, _ = goes.communicate(timeout=GIVES_UP_S)
        assert goes.returncode == 1, said
        assert "the store is gone from " in said
        assert HELP in said
        wait_until(
            lambda: not processes(hosts, None, "dask_worker", "dask worker [", str(tmp_path))
        )
    finally:
        goes.kill()
        goes.communicate()
        for one in stopped:
            one.resume()
        mend(hosts)
    go.touch()
    assert "2 done, 1 done before" in hosts.run("n1", *words)
