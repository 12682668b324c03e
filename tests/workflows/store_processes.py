"""The processes on the hosts of a store, to kill them, and to have everything run again."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import psutil
from intarsia.store import StoreError, call, call_json
from lab_hosts import Hosts
from pattern_graphs import PART_BYTES
from runs import LIMIT_S, wait_until

_CHECK_LIMIT_S = 60


def processes(hosts: Hosts, name: str | None, *of: str) -> list[psutil.Process]:
    """The processes on a host, or on all, with one of these words in their command."""
    status = call_json(hosts.store.binary, ["lab", "status", hosts.store.lab, "--json"], 30)
    found = []
    for node in status["nodes"]:
        for process in node["processes"] if name in (None, node["name"]) else []:
            with contextlib.suppress(psutil.NoSuchProcess):
                one = psutil.Process(process["pid"])
                if not of or has_one(one, *of):
                    found.append(one)
    return found


def has_one(process: psutil.Process, *of: str) -> bool:
    """Whether a process that still runs has one of these words in its command."""
    try:
        command = " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
    return any(word in command for word in of)


def kill(found: list[psutil.Process]) -> None:
    """Kill them, of which there is one at least."""
    assert found
    for one in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def cut_off(hosts: Hosts, name: str) -> None:
    """Cut all links of a host; `mend` heals them."""
    call(hosts.store.binary, ["lab", "cut", name, "--lab", hosts.store.lab], 30)


def mend(hosts: Hosts) -> None:
    """Heal all links and start what is missing on any host."""
    store = hosts.store
    call(store.binary, ["lab", "heal", "--lab", store.lab], 30)
    where = ["--lab", store.lab, "--dir", f"{store.directory}/{{host}}", "--wait", "60s"]
    try:
        call(store.binary, ["up", store.pattern, *where], int(LIMIT_S))
    except StoreError as error:
        if f"already up on {len(store.mounts)} hosts" not in str(error):
            raise
    wait_until(lambda: all(_takes_files(mount) for mount in store.mounts))


def check_store(hosts: Hosts) -> None:
    """See that the store finds itself whole again, with all that is in its files."""
    words = [str(hosts.store.binary), "check", "--content", str(hosts.store.mounts[0])]
    said = ""

    def is_whole() -> bool:
        nonlocal said
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_CHECK_LIMIT_S, check=False
        )
        said = done.stdout + done.stderr
        return done.returncode == 0

    try:
        wait_until(is_whole)
    except AssertionError as error:
        raise AssertionError(said) from error


def _takes_files(mount: Path) -> bool:
    """Whether a host that was cut off is back: a file can be made there, also with a copy."""
    place = mount / "probe"
    try:
        place.mkdir(exist_ok=True)
        os.setxattr(place, "user.intarsia.replicas", b"2")
        os.setxattr(place, "user.intarsia.close", b"safe")
        (place / mount.name).write_bytes(bytes(PART_BYTES))
    except OSError:
        return False
    return True
