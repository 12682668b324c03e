"""`intarsia run` when something is killed or cut off in the middle of each pattern.

The run ends right, or says exactly what is missing; and the same command ends right once the fault
is mended. All stories are told with INTARSIA_TEST_STORIES=all, which takes half an hour.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from intarsia.locate import locate
from lab_hosts import Hosts, four_hosts
from pattern_graphs import PATTERNS, Gate, Story, expected, mixed, write_sources
from runs import ENVIRONMENT, LIMIT_S, wait_until
from store_processes import cut_off, kill, mend, processes

#: The host of the command and of its scheduler.
FIRST = "n1"
#: How a worker of Dask is called, at its start and then.
WORKER = ("distributed.cli.dask_worker", "dask worker [")


class Telling:
    """A story that is being told: a run whose tasks come to the gate, on the hosts of a store."""

    def __init__(self, hosts: Hosts, pattern: Callable[[Gate], Story], place: Path) -> None:
        self.hosts = hosts
        self.gate = Gate(place / "gate")
        self.story = pattern(self.gate)
        self.job = hosts.new_directory()
        self._begun: list[subprocess.Popen[str]] = []
        self._write(place)

    def _write(self, place: Path) -> None:
        """Write the sources, of which each host has some, in two copies."""
        for hint, value in (("replicas", "2"), ("close", "safe")):
            os.setxattr(self.job, f"user.intarsia.{hint}", value.encode())
        for name, hints in self.story.filled.items():
            os.setxattr(self.job, "user.intarsia.replicas", b"1")
            (self.job / name).touch()
            for hint, value in hints.items():
                os.setxattr(self.job / name, f"user.intarsia.{hint}", value.encode())
            os.setxattr(self.job, "user.intarsia.replicas", b"2")
        write_sources([mount / self.job.name for mount in self.hosts.store.mounts], self.story)
        for hint in ("replicas", "close"):
            os.removexattr(self.job, f"user.intarsia.{hint}")
        text = json.dumps({"name": "story", "tasks": self.story.tasks})
        #: What the runs say, one after the other.
        self.said = place / "said"
        self.workflow = place / "story.yaml"
        self.workflow.write_text(text)

    def run(self) -> subprocess.Popen[str]:
        """Begin the run, or go on with it."""
        place = str(self.hosts.mount / self.job.name)
        where = ["--directory", place, "--hosts", "n1,n2,n3,n4", "--address", "10.77.0.1"]
        how = ["--shell", self.hosts.shell, "--slots", "1", "--json", "--lineage"]
        how += ["--run-dir", str(self.workflow.parent / "run")]
        words = [sys.executable, "-m", "intarsia.run", str(self.workflow), *where, *how]
        with self.said.open("ab") as said:
            goes = subprocess.Popen(
                self.hosts.words(FIRST, *words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=ENVIRONMENT,
            )
        self._begun.append(goes)
        return goes

    def wait_for_the_gate(self, goes: subprocess.Popen[str]) -> None:
        """Wait until all who halt have come."""

        def have_come() -> bool:
            assert goes.poll() is None, self.said.read_text()
            return len(self.gate.hosts()) >= self.story.halting

        wait_until(have_come)

    def victim(self) -> str:
        """The host that holds most of what is used, or another one than the first."""
        (found,) = locate([self.job / self.story.held]).files
        return next((name for name in found.hosts if name != FIRST), "n3")

    def wrong(self, want: dict[str, bytes]) -> list[str]:
        """The results that are not what they must be, and what they are instead."""
        found = {name: _content(self.job / name) for name in want}
        return [f"{name}: {found[name]!r}" for name in want if found[name] != want[name]]

    def end(self) -> None:
        """End what still runs."""
        self.gate.go.touch()
        for goes in self._begun:
            if goes.poll() is None:
                goes.kill()
            goes.communicate()


def _content(path: Path) -> bytes | str:
    try:
        return path.read_bytes()
    except OSError as error:
        return str(error.strerror)


def ended(goes: subprocess.Popen[str]) -> tuple[int, Any]:
    """Wait for the end of a run; return its code and its summary."""
    out, _ = goes.communicate(timeout=2 * LIMIT_S)
    return goes.returncode, json.loads(out or "null")


def told(code: int, summary: Any) -> str:
    """One line on a run."""
    counts = {key: count for key, count in summary["tasks"].items() if count}
    why = [f"{one['task']}: {one['why']}" for one in summary["failures"]]
    return f"ended with {code} after {summary['makespan_s']:.1f} s, {counts} {'; '.join(why)}"


def worker_killed(telling: Telling) -> None:
    """The worker of a task that is at the gate."""
    kill(processes(telling.hosts, telling.gate.hosts()[-1], *WORKER))


def node_killed(telling: Telling) -> None:
    """The node's process of the host that holds what is used."""
    kill(processes(telling.hosts, telling.victim(), "intarsia node"))


def host_killed(telling: Telling) -> None:
    """Everything on that host: node, metadata server, worker and tasks."""
    kill(processes(telling.hosts, telling.victim()))


def host_cut_off(telling: Telling) -> None:
    """All links of that host."""
    cut_off(telling.hosts, telling.victim())


def scheduler_killed(telling: Telling) -> None:
    """The command, with the scheduler in it."""
    kill(processes(telling.hosts, FIRST, "-m intarsia.run"))


FAULTS = {
    one.__name__: one
    for one in (worker_killed, node_killed, host_killed, host_cut_off, scheduler_killed)
}
ALL = [(pattern, fault) for pattern in PATTERNS for fault in FAULTS]
#: Those that are told in every run of the tests.
SHORT = [("mixed", "node_killed"), ("mixed", "scheduler_killed")]
STORIES = (
    ALL + [("mixed", fault) for fault in FAULTS]
    if os.environ.get("INTARSIA_TEST_STORIES") == "all"
    else SHORT
)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over four hosts."""
    with four_hosts("faults-") as hosts:
        yield hosts


@pytest.mark.parametrize(("pattern", "fault"), STORIES)
def test_a_run_ends_right_or_says_what_is_missing(
    pattern: str, fault: str, hosts: Hosts, tmp_path: Path
) -> None:
    telling = Telling(hosts, PATTERNS.get(pattern, mixed), tmp_path)
    try:
        goes = telling.run()
        telling.wait_for_the_gate(goes)
        FAULTS[fault](telling)
        if fault == "scheduler_killed":
            assert goes.wait(LIMIT_S) != 0
            goes = telling.run()
        telling.gate.go.touch()
        (tmp_path / "native").mkdir()
        want = expected(telling.story, tmp_path / "native")
        code, summary = ended(goes)
        said = telling.said.read_text()
        print(f"\n{pattern}, {fault}: {told(code, summary)}")
        if fault == "worker_killed":
            assert summary["workers_lost"], said
        if fault == "scheduler_killed" and not telling.story.filled:
            assert summary["tasks"]["done_before"], said
        if code == 0:
            assert telling.wrong(want) == [], said
            return
        # Only what no task makes may be missing, and it is named.
        why = [one["why"] for one in summary["failures"]]
        assert any(f"input {name} " in one for name in telling.story.filled for one in why), said
        mend(hosts)
        code, summary = ended(telling.run())
        print(f"  mended: {told(code, summary)}")
        assert (code, telling.wrong(want)) == (0, []), telling.said.read_text()
    finally:
        telling.end()
        if fault not in ("worker_killed", "scheduler_killed"):
            mend(hosts)
        wait_until(lambda: not processes(hosts, None, *WORKER))
