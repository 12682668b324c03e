"""The store wrapper against a stand-in for the command, which answers as a script says."""

import os
import subprocess
from pathlib import Path

import pytest
from intarsia.store import (
    Store,
    StoreError,
    find_binary,
    is_mounted,
    logged_warnings,
    process_runs,
    process_since,
)


def command(tmp_path: Path, script: str) -> Path:
    path = tmp_path / "intarsia"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
    path.chmod(0o755)
    return path


def test_up_passes_the_options_and_keeps_the_process(tmp_path: Path) -> None:
    binary = command(tmp_path, "echo '{\"pid\": 77}'")
    mount, directory = tmp_path / "m", tmp_path / "d"
    store = Store.up(mount, directory, passthrough=False, durability="sync", binary=binary)
    assert store.pid == 77
    up, status = (tmp_path / "calls").read_text().splitlines()
    assert up == f"up --mount {mount} --dir {directory} --json --no-passthrough --durability sync"
    assert status == f"status {mount} --json"


def test_a_failing_command_is_named_with_what_it_said(tmp_path: Path) -> None:
    binary = command(tmp_path, "echo mount point in use >&2; exit 4")
    with pytest.raises(StoreError, match=r"`intarsia down .*` failed \(4\):\nmount point in use"):
        Store(binary, tmp_path, tmp_path, 1).down()


def test_the_last_warnings_of_all_hosts_are_found_in_the_order_of_time(tmp_path: Path) -> None:
    times = {"n1": ("10:00:00.1Z  WARN", "10:00:00.4Z ERROR"), "n2": ("10:00:00.2Z  WARN",)}
    for host, lines in times.items():
        (tmp_path / host).mkdir()
        text = "".join(f"2026-01-01T{line} {host} fails\n" for line in lines)
        text += "2026-01-01T10:00:00.3Z  INFO mounted\nthe words WARN and ERROR\n"
        (tmp_path / host / "node.log").write_text(text)
    found = logged_warnings(tmp_path, most=2)
    assert [line.split()[0] for line in found] == ["n2:", "n1:"]
    assert "ERROR n1 fails" in found[1]
    assert logged_warnings(tmp_path / "nowhere") == []


def test_an_answer_that_is_not_json_is_refused(tmp_path: Path) -> None:
    binary = command(tmp_path, "echo mounted")
    with pytest.raises(StoreError, match="did not print JSON"):
        Store(binary, tmp_path, tmp_path, 1).status()


def test_a_wrong_intarsia_bin_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTARSIA_BIN", "/nowhere/intarsia")
    with pytest.raises(StoreError, match="/nowhere/intarsia"):
        find_binary()


def test_processes_are_seen_until_they_end() -> None:
    assert process_runs(os.getpid())
    since = process_since(os.getpid())
    assert since is not None
    assert process_runs(os.getpid(), since)
    # A process that another one's number was given to is not that one.
    assert not process_runs(os.getpid(), since - 1)
    child = subprocess.Popen(["true"])
    child.wait()
    assert not process_runs(child.pid)


def test_mounts_are_read_from_the_mount_table(tmp_path: Path) -> None:
    assert is_mounted(Path("/proc"))
    assert not is_mounted(tmp_path)
