"""The processes on the hosts of a store, to kill them, and to have everything run again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil
from intarsia.store import StoreError, call, call_json
from lab_hosts import Hosts
from pattern_graphs import PART_BYTES
from runs import LIMIT_S, wait_until


def processes(hosts: Hosts, name: str | None, *of: str) -> list[psutil.Process]:
    """The processes on a host, or on all, with one of these words in their command."""
    status = call_json(hosts.store.binary, ["lab", "status", hosts.store.lab, "--json"], 30)
    found = []
    for node in status["nodes"]:
        for process in node["processes"] if name in (None, node["name"]) else []:
            with contextlib.suppress(psutil.NoSuchProcess):
                one = psutil.Process(process["pid"])
                if not of or any(word in " ".join(one.cmdline()) for word in of):
                    found.append(one)
    return found


def kill(found: list[psutil.Process]) -> None:
    """Kill them, of which there is one at least."""
    assert found
    for one in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


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
