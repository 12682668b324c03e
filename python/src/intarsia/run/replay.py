"""Replays: tasks of a recorded workflow with real bytes, and their computation slept or burned."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from intarsia.run.graph import Graph, Task
from intarsia.run.temporary import for_store

_PROGRAM = Path(__file__).with_name("imitate.py")
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Replay:
    """How a recorded workflow is replayed.

    `scale` multiplies bytes of files, `time_scale` seconds of computation. `burns` says whether a
    core is kept busy for that time, instead of sleeping.
    """

    scale: float = 1.0
    time_scale: float = 1.0
    burns: bool = False

    def bytes_of(self, size_bytes: int) -> int:
        """Bytes of a file that had `size_bytes`; an empty one stays empty, others have 1 at least.

        >>> Replay(scale=0.01).bytes_of(1000), Replay(scale=0.01).bytes_of(7), Replay().bytes_of(0)
        (10, 1, 0)
        """
        return max(1, round(size_bytes * self.scale)) if size_bytes else 0


def sleeps(stdin: str | None) -> bool:
    """Whether what a task reads from standard input tells it to sleep instead of computing."""
    return stdin is not None and not json.loads(stdin)["burns"]


def imitated(
    replay: Replay,
    *,
    name: str,
    stage: str,
    reads: Sequence[str],
    writes: Mapping[str, int],
    after: Sequence[str],
    compute_s: float,
    cores: int,
) -> Task:
    """Return a task that reads files whole, computes, and writes files of so many bytes."""
    seconds = compute_s * replay.time_scale
    order = {"reads": list(reads), "seconds": seconds, "writes": dict(writes)}
    order["burns"] = replay.burns
    command = f"exec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(_PROGRAM))}"
    return Task(
        name,
        command,
        tuple(reads),
        tuple(writes),
        tuple(after),
        stage,
        cores,
        stdin=json.dumps(order),
        compute_s=seconds,
    )


def missing_inputs(graph: Graph, directory: Path) -> list[str]:
    """Name the files that the replay reads, that no task makes, and that are not there."""
    return [file for file in graph.sources if not _is_there(directory / file, graph, file)]


def dealt(graph: Graph, files: Sequence[str], hosts: Sequence[str]) -> dict[str, list[str]]:
    """Deal files over hosts, so that each gets about as many bytes."""
    parts: dict[str, list[str]] = {host: [] for host in hosts}
    held = dict.fromkeys(hosts, 0)
    for file in sorted(files, key=lambda file: -graph.size_bytes[file]):
        host = min(held, key=lambda host: held[host])
        parts[host].append(file)
        held[host] += graph.size_bytes[file]
    return {host: part for host, part in parts.items() if part}


def make_files(files: Mapping[str, int], hints: Mapping[str, Mapping[str, str]]) -> None:
    """Make files of so many random bytes, each under its name only when it is whole.

    `files` and `hints` are by path. Raises OSError.
    """
    for name, size_bytes in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.part")
        with open(beside, "wb") as out:
            for hint, value in for_store(hints.get(name, {})).items():
                os.setxattr(out.fileno(), f"user.intarsia.{hint}", value.encode())
        # Opened anew, for where a file goes is decided when it is opened.
        with open(beside, "wb") as out:
            left = size_bytes
            while left:
                left -= out.write(os.urandom(min(left, _PIECE)))
        beside.replace(path)


def _is_there(path: Path, graph: Graph, file: str) -> bool:
    try:
        return path.stat().st_size == graph.size_bytes[file]
    except OSError:
        return False
