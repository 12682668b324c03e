"""An advice is followed over several hosts: by `up`, and by `run` on a store that is up."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from conftest import SCRATCH, require
from intarsia.lab_store import lab_problem
from intarsia.locate import locate
from intarsia.store import call, call_json, find_binary, is_mounted
from lab_hosts import Hosts, four_hosts

LIMIT_S = 120
PART_BYTES = 2_000_000
PARTS = 4
PROFILE: dict[str, Any] = {
    "format": "intarsia-profile",
    "version": 1,
    "name": "lab",
    "provenance": {"source": "assumed", "note": "a test"},
    "hosts": 4,
    "host": {"slots": 1, "in_bytes_per_second": 1e9, "out_bytes_per_second": 1e9},
    "network": {"latency_seconds": 1e-4, "loopback_bytes_per_second": 4e9},
    "manager": {"open_seconds": 1e-4, "allocate_seconds": 1e-4, "commit_seconds": 1e-4},
    "tiers": [
        {
            "class": "memory",
            "capacity_bytes": 10**10,
            "read": {"request_seconds": 1e-5, "bytes_per_second": 1e9},
            "write": {"request_seconds": 1e-5, "bytes_per_second": 1e9},
        }
    ],
}


def advice(directory: Path, *choices: str) -> Path:
    """Recommend something for four tasks that write a file each, and one that reads all."""
    parts = [f"part{number}" for number in range(PARTS)]
    tasks = [{"name": f"make-{part}", "stage": "make", "writes": [part]} for part in parts]
    tasks.append({"name": "sum", "reads": parts, "writes": ["sum"]})
    files = [{"name": part, "size_bytes": PART_BYTES} for part in parts]
    files.append({"name": "sum", "size_bytes": 100})
    form = {"format": "intarsia-workload", "version": 1, "name": "parts"}
    workload, profile = directory / "workload.json", directory / "profile.json"
    workload.write_text(json.dumps(form | {"files": files, "tasks": tasks}))
    profile.write_text(json.dumps(PROFILE))
    words = ["advise", str(workload), "--profile", str(profile), "--storage-hosts", "all"]
    words += ["--chunk", "64KiB", "--runs", "1", "--json", *choices]
    path = directory / "advice.json"
    path.write_text(call(find_binary(), words, LIMIT_S))
    return path


def test_up_takes_as_many_hosts_of_a_lab_and_stripes_as_is_advised() -> None:
    problem = lab_problem()
    require(problem is None, str(problem))
    binary, lab = find_binary(), f"a{uuid.uuid4().hex[:6]}"
    with tempfile.TemporaryDirectory(prefix="advice-", dir=SCRATCH) as place:
        directory = Path(place).resolve()
        followed = advice(
            directory, "--hosts", "3", "--placement", "round-robin", "--stripe-width", "3"
        )
        base = str(directory / "mnt-{host}")
        mounts = [directory / f"mnt-n{number}" for number in (1, 2, 3, 4)]
        call(binary, ["lab", "up", lab, "--nodes", "4"], LIMIT_S)
        try:
            where = ["--lab", lab, "--dir", f"{directory}/store/{{host}}", "--wait", "60s"]
            words = [str(binary), "up", base, *where, "--advice", str(followed)]
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "3 hosts; n4 not used" in done.stdout + done.stderr
            assert [is_mounted(mount) for mount in mounts] == [True, True, True, False]
            file = mounts[0] / "striped"
            file.write_bytes(b"x" * 600_000)
            assert (mounts[2] / "striped").read_bytes() == b"x" * 600_000
            told = call_json(binary, ["locate", str(file), "--json"], LIMIT_S)
            assert set(told[0]["nodes"]) == {"n1", "n2", "n3"}
        finally:
            with contextlib.suppress(Exception):
                call(binary, ["down", base, "--lab", lab, "--purge"], LIMIT_S)
            call(binary, ["lab", "down", lab, "--kill"], LIMIT_S)
        assert not any(is_mounted(mount) for mount in mounts)


def followed_run(hosts: Hosts, directory: Path, path: Path) -> Any:
    """Run the workflow from the first host as the advice says; return the summary."""
    tasks: dict[str, dict[str, object]] = {
        f"make-{number}": {
            "command": f"head -c {PART_BYTES} /dev/zero > part{number}",
            "outputs": [f"part{number}"],
        }
        for number in range(PARTS)
    }
    parts = [f"part{number}" for number in range(PARTS)]
    tasks["sum"] = {
        "command": f"cat {' '.join(parts)} | wc -c > sum",
        "inputs": parts,
        "outputs": ["sum"],
    }
    (directory / "w.yaml").write_text(json.dumps({"tasks": tasks}))
    place = hosts.mount / directory.name
    words = [sys.executable, "-m", "intarsia.run", str(place / "w.yaml")]
    words += ["--directory", str(place), "--hosts", "n1,n2,n3,n4", "--address", "10.77.0.1"]
    words += ["--shell", hosts.shell, "--slots", "1", "--quiet", "--json"]
    return json.loads(hosts.run("n1", *words, "--advice", str(path)))


def test_run_uses_as_many_hosts_as_is_advised_and_tells_predicted_and_actual() -> None:
    with four_hosts("advice-") as hosts:
        job = hosts.new_directory()
        scratch = hosts.mount.parent / "advice"
        scratch.mkdir()
        path = advice(scratch, "--hosts", "2", "--placement", "local", "--scheduler", "location")
        summary = followed_run(hosts, job, path)
        assert set(summary["hosts"]) <= {"n1", "n2"}
        assert (job / "sum").read_text().strip() == str(PARTS * PART_BYTES)
        found = locate([job / f"part{number}" for number in range(PARTS)])
        assert {host for file in found.files for host in file.hosts} <= {"n1", "n2"}
        kept = json.loads(next(job.glob(".run-*/predicted.json")).read_text())
        assert (kept["hosts"], kept["tasks"], kept["placement"]) == (2, PARTS + 1, "local")
        assert kept["comparison"]["makespan"]["actual_s"] > 0
