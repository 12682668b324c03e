"""Running the `intarsia` binary, which does all simulating."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intarsia.store import StoreError, find_binary

if TYPE_CHECKING:
    from intarsia.simulate.scenario import Scenario


class SimulationError(RuntimeError):
    """The binary is missing or refused the scenario; the text is what it said."""


@dataclass(frozen=True)
class Binary:
    """The binary and what tells one build from another."""

    path: Path
    version: str
    digest: str

    @property
    def identity(self) -> str:
        """Version and content: two builds of one version are not the same simulator."""
        return f"{self.version} {self.digest}"


def locate() -> Binary:
    """Find the binary: `INTARSIA_BIN`, this checkout's newest build, or the PATH."""
    try:
        path = find_binary()
    except StoreError as error:
        raise SimulationError(str(error)) from error
    state = path.stat()
    return _identify(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _identify(path: Path, _modified: int, _size: int) -> Binary:
    version = _run(path, ["--version"]).strip()
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return Binary(path, version, digest)


def effective(path: Path, kind: str, scenario: Scenario) -> dict[str, Any]:
    """Return all of a scenario, defaults included, without running it."""
    answer = _read(path, kind, scenario, ["--dry-run"])
    if not isinstance(answer, dict):
        raise SimulationError(f"`{path.name} simulate {kind} --dry-run` printed no scenario")
    return answer


def simulate(
    path: Path, kind: str, scenario: Scenario, threads: int | None = None
) -> list[dict[str, Any]]:
    """Run a scenario and return its envelopes: one, or one for each number of nodes it lists."""
    answer = _read(path, kind, scenario, [] if threads is None else ["--threads", str(threads)])
    envelopes = answer if isinstance(answer, list) else [answer]
    if not all(isinstance(one, dict) and "estimates" in one for one in envelopes):
        raise SimulationError(
            f"`{path.name} simulate {kind}` printed no estimates: is it another version?"
        )
    return envelopes


def presets() -> list[dict[str, str]]:
    """Return kind, name and summary of the scenarios that come with the binary."""
    listed = json.loads(_run(locate().path, ["simulate", "presets", "--json"]))
    return [dict(one) for one in listed]


def preset(name: str) -> dict[str, Any]:
    """Return a scenario that comes with the binary."""
    return tomllib.loads(_run(locate().path, ["simulate", "presets", name]))


def _read(path: Path, kind: str, scenario: Scenario, options: list[str]) -> Any:
    assignments = [word for one in scenario.assignments for word in ("--set", one)]
    arguments = ["simulate", kind, "-", "--json", *assignments, *options]
    try:
        text = _run(path, arguments, scenario.text, scenario.directory)
    except SimulationError as error:
        # The binary reads the text from its standard input; the user wrote a file.
        raise SimulationError(str(error).replace("<stdin>", scenario.name)) from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise SimulationError(
            f"`{path.name} simulate {kind}` did not print JSON ({error}): {text[:200]!r}"
        ) from error


_running: set[subprocess.Popen[str]] = set()


def stop_running() -> None:
    """End the simulations that other threads wait for; for them it looks like a failure."""
    for process in list(_running):
        process.terminate()


def _run(path: Path, arguments: list[str], text: str = "", directory: Path | None = None) -> str:
    shown = f"`{path.name} {' '.join(arguments)}`"
    try:
        process = subprocess.Popen(
            [str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            text=True,
        )
    except OSError as error:
        raise SimulationError(f"{path} cannot be run: {error}") from error
    _running.add(process)
    with process:
        try:
            printed, said = process.communicate(text)
        except BaseException:
            process.kill()
            raise
        finally:
            _running.discard(process)
    if process.returncode < 0:
        raise SimulationError(f"{shown} was ended by signal {-process.returncode}")
    if process.returncode != 0:
        raise SimulationError(
            said.strip().removeprefix("error: ")
            or f"{shown} failed with exit code {process.returncode}"
        )
    return printed
