"""One store over the nodes of a lab: many hosts on this machine, each with its own mount."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.store import (
    Store,
    StoreError,
    call,
    call_json,
    find_binary,
    is_mounted,
    one,
    process_runs,
    process_since,
)

_UP_TIMEOUT_S = 120
_DOWN_TIMEOUT_S = 120
_QUERY_TIMEOUT_S = 30


def lab_problem() -> str | None:
    """Say why no lab can be made here, or return None."""
    if os.geteuid() != 0:
        return "a lab of network namespaces needs root"
    for program, package in (
        ("nft", "nftables"),
        ("ip", "iproute2"),
        ("redis-server", "redis-server"),
    ):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            return f"{program} is missing (Debian package: {package})"
    return None


@dataclass(frozen=True)
class LabStore:
    """A store that `up --lab` started on every node of a lab of its own."""

    binary: Path
    lab: str
    pattern: str
    mounts: tuple[Path, ...]
    directory: Path
    #: Its nodes by their numbers, and when each began.
    processes: Mapping[int, int | None]

    @classmethod
    def up(
        cls,
        base: Path,
        directory: Path,
        nodes: int,
        binary: Path | None = None,
        *,
        link: str | None = None,
    ) -> LabStore:
        """Make a lab and bring a store up on all its nodes, mounted at `base`-n1 and so on.

        `link` is the rate of their links, as 100mbit; without it they are as fast as the machine.
        """
        binary = binary or find_binary()
        lab = f"d{uuid.uuid4().hex[:6]}"
        pattern = f"{base}-{{host}}"
        directory.mkdir(parents=True, exist_ok=True)
        links = [] if link is None else ["--link", link]
        call(binary, ["lab", "up", lab, "--nodes", str(nodes), *links], _UP_TIMEOUT_S)
        try:
            place = ["--lab", lab, "--dir", f"{directory}/{{host}}", "--wait", "60s"]
            call(binary, ["up", pattern, *place], _UP_TIMEOUT_S)
            mounts = tuple(Path(f"{base}-n{node}") for node in range(1, nodes + 1))
            pids = [int(_status(binary, mount)["pid"]) for mount in mounts]
        except StoreError:
            call(binary, ["lab", "down", lab, "--kill"], _DOWN_TIMEOUT_S)
            raise
        processes = {pid: process_since(pid) for pid in pids}
        return cls(binary, lab, pattern, mounts, directory, processes)

    def status(self) -> dict[str, Any]:
        """Return what `intarsia status --json` says of the first host, with the requests of all."""
        found = [_status(self.binary, mount) for mount in self.mounts]
        return found[0] | {"requests": sum(int(status["requests"]) for status in found)}

    def locate(self, files: Sequence[Path]) -> Any:
        """Return what `intarsia locate --json` says of `files`."""
        names = [str(file) for file in files]
        return call_json(self.binary, ["locate", *names, "--json"], _QUERY_TIMEOUT_S)

    def down(self, *, purge: bool = False) -> None:
        """Take the store down, then its lab; with `purge`, delete the data as well."""
        options = ["--purge"] if purge else []
        try:
            call(self.binary, ["down", self.pattern, "--lab", self.lab, *options], _DOWN_TIMEOUT_S)
        finally:
            call(self.binary, ["lab", "down", self.lab, "--kill"], _DOWN_TIMEOUT_S)

    def leftovers(self) -> list[str]:
        """Name what is still there after `down`: mounts, processes."""
        left = [f"{mount} is still mounted" for mount in self.mounts if is_mounted(mount)]
        runs = [pid for pid, since in self.processes.items() if process_runs(pid, since)]
        return left + [f"process {pid} still runs" for pid in runs]


AnyStore = Store | LabStore


def _status(binary: Path, mount: Path) -> dict[str, Any]:
    return one(call_json(binary, ["status", str(mount), "--json"], _QUERY_TIMEOUT_S))
