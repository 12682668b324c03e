"""`intarsia run` over four hosts of a lab: tasks beside their data, and a host that is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from intarsia.locate import locate
from intarsia.store import call_json
from intarsia.tag import hints_on
from lab_hosts import Hosts, four_hosts
from runs import ENVIRONMENT, LIMIT_S, wait_until

# Above what stands beside its inode, also when packed.
PART_BYTES = 2_000_000


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A store over four hosts."""
    with four_hosts("run-") as hosts:
        yield hosts


@pytest.fixture
def job(hosts: Hosts) -> Path:
    """A new directory of the store, by the path of the first host."""
    return hosts.new_directory()


def run(hosts: Hosts, job: Path, tasks: dict[str, dict[str, object]], *options: str) -> Any:
    """Run tasks from the first host on all four; return the summary."""
    return json.loads(hosts.run("n1", *words(hosts, job, tasks, *options)))


def words(hosts: Hosts, job: Path, tasks: dict[str, dict[str, object]], *options: str) -> list[str]:
    """What the first host is to run, which says nothing on standard error."""
    workflow = job / "w.yaml"
    workflow.write_text(json.dumps({"tasks": tasks}))
    place = hosts.mount / job.name
    where = ["--directory", str(place), "--hosts", "n1,n2,n3,n4", "--address", "10.77.0.1"]
    how = ["--shell", hosts.shell, "--slots", "1", "--quiet", "--json", *options]
    return [sys.executable, "-m", "intarsia.run", str(place / "w.yaml"), *where, *how]


def packing(hosts: Hosts, job: Path) -> dict[str, dict[str, object]]:
    """Four tasks that pack four files, which the third and the fourth host have written."""
    tasks: dict[str, dict[str, object]] = {}
    for number in range(4):
        mount = hosts.store.mounts[2 + number % 2]
        (mount / job.name / f"part{number}").write_bytes(os.urandom(PART_BYTES))
        tasks[f"pack-{number}"] = {
            "command": f"gzip -1 < part{number} > packed{number}",
            "inputs": [f"part{number}"],
            "outputs": [f"packed{number}"],
        }
    return tasks


def test_tasks_run_where_their_input_lies(hosts: Hosts, job: Path) -> None:
    tasks = packing(hosts, job)
    summary = run(hosts, job, tasks, "--schedule", "local", "--patience", "60")
    assert summary["input_bytes"] == summary["local_bytes"] == 4 * PART_BYTES
    assert set(summary["hosts"]) == {"n3", "n4"}
    found = locate([job / f"packed{number}" for number in range(4)])
    assert [file.hosts for file in found.files] == [("n3",), ("n4",), ("n3",), ("n4",)]


def test_a_schedule_that_knows_no_data_does_not(hosts: Hosts, job: Path) -> None:
    """One task begins on each host."""
    summary = run(hosts, job, packing(hosts, job), "--schedule", "workqueue")
    assert set(summary["hosts"]) == {"n1", "n2", "n3", "n4"}
    assert summary["remote_bytes"] >= 2 * PART_BYTES


def test_what_a_waiting_task_reads_is_copied_ahead(hosts: Hosts, job: Path) -> None:
    """All input lies on one host, and all hosts are busy with the first tasks."""
    tasks: dict[str, dict[str, object]] = {}
    for number in range(8):
        (hosts.store.mounts[2] / job.name / f"part{number}").write_bytes(os.urandom(PART_BYTES))
        command = f"sleep 1; cksum < part{number} > sum{number}"
        inputs, outputs = [f"part{number}"], [f"sum{number}"]
        tasks[f"sum-{number}"] = {"command": command, "inputs": inputs, "outputs": outputs}
    summary = run(hosts, job, tasks, "--schedule", "wow", "--ahead-bytes", str(3 * PART_BYTES))
    assert summary["is_well"]
    assert 0 < summary["copied_ahead_bytes"] <= 3 * PART_BYTES


def test_hints_that_an_earlier_run_teaches(hosts: Hosts, job: Path) -> None:
    """Four hosts make a large and a small file each, one after the other, for one reader."""
    tasks: dict[str, dict[str, object]] = {}
    large, small = [f"large{n}" for n in range(4)], [f"small{n}" for n in range(4)]
    for number in range(4):
        bytes_of = {large[number]: PART_BYTES, small[number]: 20_000}
        writes = [f"head -c {size} /dev/urandom > {file}" for file, size in bytes_of.items()]
        command = "; ".join([f"sleep {number}", *writes])
        tasks[f"make-{number}"] = {"command": command, "outputs": list(bytes_of)}
    inputs = [*large, *small]
    tasks["sum"] = {
        "command": f"cat {' '.join(inputs)} | cksum > sum",
        "inputs": inputs,
        "outputs": ["sum"],
    }
    first = run(hosts, job, tasks, "--hints", "none")
    assert first["hinted_files"] == 0
    assert first["remote_bytes"] >= 3 * PART_BYTES
    (plan,) = [run(hosts, job, tasks, "--fresh", "--dry-run")]
    why = {one["names"]: one["why"] for one in plan["lessons"]}
    assert "can come to the reader while others are being made" in why["large*"]
    assert "setting the hint takes" in why["small*"]
    second = run(hosts, job, tasks, "--fresh")
    taught = {one["names"]: one["hints"] for one in second["lessons"] if one["maker"] == "make"}
    assert taught == {"large*": {"place": "collocate:{reader}"}, "small*": {}}
    assert second["hinted_files"] == 4
    assert os.getxattr(job / "large0", "user.intarsia.place") == b"collocate:sum"
    assert second["remote_bytes"] < first["remote_bytes"]
    derived = run(hosts, job, tasks, "--fresh", "--hints", "derived")
    assert derived["hinted_files"] == 0, "they are where they are made by themselves"
    assert (
        "large* -> sum: no hint: a store has it where it is made by itself"
        in (job / ".run-w/hints.log").read_text()
    )
    again = run(hosts, job, tasks, "--fresh", "--dry-run")
    assert {
        one["names"]: one["hints"] for one in again["lessons"] if one["maker"] == "make"
    } == taught


def test_what_is_known_of_sizes_while_a_run_goes_on_is_followed(
    hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    """Three parts are made after a first one, for one reader; all hosts read what one has made."""
    new, at = f"head -c {PART_BYTES} /dev/urandom >", tmp_path / "at"
    tasks: dict[str, dict[str, object]] = {"make": {"command": f"{new} wide", "outputs": ["wide"]}}
    for number in range(4):
        name = f"part{number}"
        tasks[f"part-{number}"] = {"command": f"{new} {name}", "outputs": [name]}
        tasks[f"part-{number}"]["after"] = ["part-0"] if number else []
        # Else the host that made it may read it four times, while parts keep the others.
        meet = f"touch {at}-{number}; until [ $(ls {at}-* | wc -l) = 4 ]; do sleep 0.05; done"
        command = f"{meet}; cksum < wide > sum{number}"
        tasks[f"sum-{number}"] = {"command": command, "inputs": ["wide"]}
        tasks[f"sum-{number}"]["outputs"] = [f"sum{number}"]
    parts = [f"part{number}" for number in range(4)]
    command = f"cat {' '.join(parts)} | cksum > total"
    tasks["total"] = {"command": command, "inputs": parts, "outputs": ["total"]}
    before = hosts.spread_files()
    summary = run(hosts, job, tasks, "--schedule", "workqueue")
    assert summary["is_well"], summary["failures"]
    found = {name: hints_on(job / name) for name in ("wide", *parts, "sum0")}
    gathered = {name: {"place": "collocate:total"} for name in parts[1:]}
    assert found == {"wide": {"pattern": "broadcast"}, "part0": {}, "sum0": {}} | gathered
    assert summary["hinted_files"] == 4
    assert hosts.spread_files() > before
    assert len({file.hosts for file in locate([job / name for name in parts[1:]]).files}) == 1
    log = (job / ".run-w/hints.log").read_text().splitlines()
    assert "make: wide* -> sum: pattern=broadcast: tasks on up to 4 hosts read it" in log


def test_a_hint_of_a_directory_that_the_graph_contradicts_is_overruled(
    hosts: Hosts, job: Path
) -> None:
    os.setxattr(job, "user.intarsia.pattern", b"distribute")
    tasks: dict[str, dict[str, object]] = {}
    for number in range(2):
        command = f"head -c {PART_BYTES} /dev/urandom > f{number}"
        tasks[f"make-{number}"] = {"command": command, "outputs": [f"f{number}"]}
        tasks[f"make-{number}"]["after"] = ["make-0"] if number else []
        tasks[f"use-{number}"] = {"command": f"cksum < f{number} > u{number}"}
        tasks[f"use-{number}"] |= {"inputs": [f"f{number}"], "outputs": [f"u{number}"]}
    assert run(hosts, job, tasks)["is_well"]
    assert [hints_on(job / f"f{number}").get("place") for number in range(2)] == [None, "local"]


def test_what_is_cheaper_to_copy_than_to_make_again_gets_copies(hosts: Hosts, job: Path) -> None:
    """One file takes long to make and is small, another is made at once and is large."""
    made = {"slow": f"sleep 3; head -c {PART_BYTES} /dev/urandom > slow"}
    made["quick"] = f"head -c {30 * PART_BYTES} /dev/zero > quick"
    tasks: dict[str, dict[str, object]] = {
        name: {"command": command, "outputs": [name]} for name, command in made.items()
    }
    # Both are needed for a while, also on a machine that is quick.
    tasks["use"] = {
        "command": "sleep 2; cat slow quick | cksum > used",
        "inputs": ["slow", "quick"],
        "outputs": ["used"],
    }
    # As if a host were lost every 36 s.
    options = ["--lineage", "--mtbf", "0.01"]
    first = run(hosts, job, tasks, *options)
    assert first["copies_or_recomputation"] == [], "nothing was measured before"
    assert [file.copies for file in locate([job / "slow"]).files] == [1]
    second = run(hosts, job, tasks, *options, "--fresh")
    told = {one["rule"]: one for one in second["copies_or_recomputation"]}
    assert told["slow: slow* -> use"]["with_copies"] == 1
    assert "copies are cheaper" in told["slow: slow* -> use"]["why"]
    assert told["quick: quick* -> use"]["with_copies"] == 0
    # Copies are made in the background.
    wait_until(lambda: [file.copies for file in locate([job / "slow"]).files] == [2])
    assert [file.copies for file in locate([job / "quick"]).files] == [1]
    safe = run(hosts, job, tasks, "--lineage", "--fresh", "--dry-run")
    assert all(one["with_copies"] == 0 for one in safe["copies_or_recomputation"])


def test_a_run_goes_on_once_wherever_it_is_begun_again(
    hosts: Hosts, job: Path, tmp_path: Path
) -> None:
    command = f"echo x >> tries; until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo 1 > a"
    tasks: dict[str, dict[str, object]] = {
        "a": {"command": command, "outputs": ["a"]},
        "b": {"command": "cat a > b", "inputs": ["a"], "outputs": ["b"]},
    }
    place = hosts.mount / job.name
    (job / "w.yaml").write_text(json.dumps({"tasks": tasks}))
    alone = [sys.executable, "-m", "intarsia.run", str(place / "w.yaml"), "--directory", str(place)]
    first = begin(hosts, "n1", *alone, "--json")
    try:
        wait_until((job / "tries").exists)
        second = begin(hosts, "n2", *alone)
        assert "another run uses" in second.communicate(timeout=LIMIT_S)[1]
        assert second.returncode == 4
        assert "2 of 2 tasks would run" in hosts.run("n3", *alone, "--dry-run")
    finally:
        (tmp_path / "go").touch()
        told, said = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 0, said
    assert json.loads(told)["tasks"]["done"] == 2
    # Changed on one host, it is made again from another.
    (hosts.store.mounts[2] / job.name / "b").write_text("")
    again = json.loads(hosts.run("n4", *alone, "--json", "--quiet"))
    assert (again["tasks"]["done_before"], again["tasks"]["done"]) == (1, 1)
    assert (job / "b").read_text() == "1\n"
    assert (job / "tries").read_text() == "x\n"


def begin(hosts: Hosts, host: str, *words: str) -> subprocess.Popen[str]:
    """Begin a command on a host."""
    return subprocess.Popen(
        hosts.words(host, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def test_files_that_went_with_a_host_are_made_again(hosts: Hosts, job: Path) -> None:
    """The last test: it kills everything on the third host in the middle of a run."""
    go = hosts.mount.with_name("go")
    gate = f"while [ ! -e {go} ]; do sleep 0.1; done"
    tasks: dict[str, dict[str, object]] = {}
    for number in range(6):
        tasks[f"make-{number}"] = {
            "command": f"head -c {PART_BYTES} /dev/urandom > f{number}",
            "outputs": [f"f{number}"],
        }
        tasks[f"use-{number}"] = {
            "command": f"{gate}; cksum < f{number} > u{number}",
            "inputs": [f"f{number}"],
            "outputs": [f"u{number}"],
        }
    sums = [f"u{number}" for number in range(6)]
    tasks["sum"] = {"command": f"cat {' '.join(sums)} > sum", "inputs": sums, "outputs": ["sum"]}
    order = words(hosts, job, tasks, "--lineage", "--hints", "none")
    goes = subprocess.Popen(
        hosts.words("n1", *order),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        logs = job / ".run-w/logs"
        wait_until(lambda: len(list(logs.glob("use-*"))) == 4)
        kill_host(hosts, "n3")
        go.touch()
        out, _ = goes.communicate(timeout=LIMIT_S)
    finally:
        go.touch()
        if goes.poll() is None:
            goes.wait(LIMIT_S)
    summary = json.loads(out)
    assert summary["is_well"], summary["failures"]
    assert summary["tasks"]["done"] == len(tasks)
    assert summary["tasks"]["made_again"] >= 1
    for number in range(6):
        content = (job / f"f{number}").read_bytes()
        found = subprocess.run(["cksum"], input=content, capture_output=True, check=True)
        assert found.stdout == (job / f"u{number}").read_bytes()


def kill_host(hosts: Hosts, name: str) -> None:
    """Kill every process of a host."""
    status = call_json(hosts.store.binary, ["lab", "status", hosts.store.lab, "--json"], 30)
    for node in status["nodes"]:
        for process in node["processes"] if node["name"] == name else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process["pid"], signal.SIGKILL)
