"""One running store, driven through the `intarsia` command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_UP_TIMEOUT_S = 60
_DOWN_TIMEOUT_S = 120
_QUERY_TIMEOUT_S = 30
#: As nodes write them: the time, then the level.
_WARNING = re.compile(r"\S+Z +(WARN|ERROR) ")


class StoreError(RuntimeError):
    """A command about the store failed; the text says which and why."""


def find_binary() -> Path:
    """Return the `intarsia` binary: `INTARSIA_BIN`, this checkout's newest build, or the PATH."""
    given = os.environ.get("INTARSIA_BIN")
    if given:
        path = Path(given)
        if not path.is_file():
            raise StoreError(f"INTARSIA_BIN names {path}, which is not a file")
        return path.resolve()
    root = Path(__file__).resolve().parents[3]
    builds = [root / "target" / profile / "intarsia" for profile in ("release", "debug")]
    found = [build for build in builds if build.is_file()]
    if found:
        return max(found, key=lambda build: build.stat().st_mtime)
    installed = shutil.which("intarsia")
    if installed:
        return Path(installed)
    raise StoreError("no intarsia binary: run `cargo build --release`, or set INTARSIA_BIN")


def fuse_problem() -> str | None:
    """Say why no file system can be mounted here, or return None."""
    if not Path("/dev/fuse").exists():
        return "/dev/fuse is missing (load the kernel module `fuse`)"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "fusermount3 is missing (Debian package: fuse3)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened for reading and writing by this user"
    return None


def logged_warnings(directory: Path, most: int = 20) -> list[str]:
    """Return the last warnings and errors that nodes with logs below `directory` wrote, by time.

    Each line names the directory that its log is in.
    """
    found = []
    for log in sorted(directory.rglob("node.log")):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if _WARNING.match(line):
                found.append((line.split(maxsplit=1)[0], f"{log.parent.name}: {line}"))
    return [line for _, line in sorted(found)[-most:]]


@dataclass(frozen=True)
class Store:
    """A store that `up` started: its mount, the directory of its tier, its process."""

    binary: Path
    mount: Path
    directory: Path
    pid: int
    #: When that began; None: nobody looked, and any process of its number counts.
    since: int | None = None

    @classmethod
    def up(
        cls,
        mount: Path,
        directory: Path,
        *,
        passthrough: bool = True,
        durability: str | None = None,
        binary: Path | None = None,
    ) -> Store:
        """Bring a store up on `mount` with one tier in `directory`."""
        binary = binary or find_binary()
        mount.mkdir(parents=True, exist_ok=True)
        directory.mkdir(parents=True, exist_ok=True)
        options = ["--mount", str(mount), "--dir", str(directory), "--json"]
        if not passthrough:
            options.append("--no-passthrough")
        if durability is not None:
            options += ["--durability", durability]
        call(binary, ["up", *options], _UP_TIMEOUT_S)
        status = call_json(binary, ["status", str(mount), "--json"], _QUERY_TIMEOUT_S)
        pid = int(one(status)["pid"])
        return cls(binary, mount, directory, pid, process_since(pid))

    @property
    def mounts(self) -> tuple[Path, ...]:
        """Where programs can work in it: one place on this host."""
        return (self.mount,)

    def status(self) -> dict[str, Any]:
        """Return what `intarsia status --json` says of this store."""
        answer = call_json(self.binary, ["status", str(self.mount), "--json"], _QUERY_TIMEOUT_S)
        return one(answer)

    def locate(self, files: Sequence[Path]) -> Any:
        """Return what `intarsia locate --json` says of `files`."""
        names = [str(file) for file in files]
        return call_json(self.binary, ["locate", *names, "--json"], _QUERY_TIMEOUT_S)

    def down(self, *, purge: bool = False) -> None:
        """Take the store down; with `purge`, delete its data as well."""
        options = ["--purge"] if purge else []
        call(self.binary, ["down", str(self.mount), *options], _DOWN_TIMEOUT_S)

    def is_alive(self) -> bool:
        """Whether the store's process still runs."""
        return process_runs(self.pid, self.since)

    def leftovers(self) -> list[str]:
        """Name what is still there after `down`: the mount, the process."""
        left = []
        if is_mounted(self.mount):
            left.append(f"{self.mount} is still mounted")
        if self.is_alive():
            left.append(f"process {self.pid} still runs")
        return left


def is_mounted(path: Path) -> bool:
    """Whether something is mounted on `path`, without touching the mount itself."""
    wanted = str(path.parent.resolve() / path.name)
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return any(_unescape(line.split()[4]) == wanted for line in table)


def process_runs(pid: int, since: int | None = None) -> bool:
    """Whether process `pid` exists and is not just waiting to be reaped.

    With what `process_since` said of it, whether it is the same one: numbers are given again.
    """
    found = process_since(pid)
    return found is not None and since in (None, found)


def process_since(pid: int) -> int | None:
    """Return when process `pid` began, in clock ticks since boot; None if it does not run."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if said[0] in ("Z", "X") else int(said[19])


def _unescape(field: str) -> str:
    r"""Undo the octal escapes of mountinfo (a blank is written as \040)."""
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(escape, character)
    return field


def one(answer: Any) -> dict[str, Any]:
    """Take the single store out of an answer that may be a list of stores."""
    if isinstance(answer, list):
        if len(answer) != 1:
            raise StoreError(f"expected the status of one store, got {len(answer)}")
        answer = answer[0]
    if not isinstance(answer, dict):
        raise StoreError(f"expected an object as status, got {type(answer).__name__}")
    return answer


def call_json(binary: Path, arguments: list[str], timeout_s: int) -> Any:
    """Run the command and return the JSON that it prints."""
    text = call(binary, arguments, timeout_s)
    try:
        return json.loads(text)
    except ValueError as error:
        shown = f"`{binary.name} {' '.join(arguments)}`"
        raise StoreError(f"{shown} did not print JSON ({error}): {text[:200]!r}") from error


def call(binary: Path, arguments: list[str], timeout_s: int) -> str:
    """Run the command and return what it prints."""
    shown = f"`{binary.name} {' '.join(arguments)}`"
    try:
        done = subprocess.run(
            [str(binary), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StoreError(f"{shown} gave no answer within {timeout_s} s") from error
    if done.returncode != 0:
        raise StoreError(f"{shown} failed ({done.returncode}):\n{done.stderr.strip()}")
    return done.stdout
