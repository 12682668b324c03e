"""The measurement itself, as it is foretold from the profile that it gave: what the form loses."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.seed.errors import SeedError
from intarsia.seed.home import by_mode
from intarsia.seed.probe import KIB, MIB
from intarsia.seed.rounds import Measurement
from intarsia.store import StoreError, find_binary

#: So many files of 4 KiB, as in a round.
_NAMES = 64
#: Times of requests are drawn: with as many runs their mean is known well enough.
_RUNS = 20
_Operations = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a round, as a workload of one task, and how long it took in the mean of rounds.

    `options` are those of `intarsia predict`.
    """

    name: str
    sizes: Mapping[str, int]
    operations: _Operations
    measured_s: float
    options: tuple[str, ...] = ("--hosts", "1")

    def workload(self) -> dict[str, Any]:
        """Return it in the form that `intarsia predict` reads."""
        files = [{"name": name, "size_bytes": size} for name, size in self.sizes.items()]
        task = {"name": self.name, "operations": self.operations}
        head = {"format": "intarsia-workload", "version": 1, "name": self.name}
        return head | {"files": files, "tasks": [task]}


def parts(found: Measurement) -> list[Part]:
    """Return what a round does: names, a large file, the same of another host if there is one."""
    means, _ = by_mode(found)
    made = [_names(means), _written(means, found.size_bytes), _read(means, found.size_bytes)]
    if f"far_{MIB}" in means:
        made.append(_read_far(means, found.size_bytes))
    return made


def _names(means: Mapping[str, float]) -> Part:
    names = [f"f{number}" for number in range(_NAMES)]
    operations: _Operations = []
    for name in names:
        operations += [{"write": name}, {"close": name}]
    operations += [{"open": name} for name in names]
    each = ("create", "first_write", "close_write", "open", "close_read")
    took_s = _NAMES * sum(means[one] for one in each)
    return Part("names", dict.fromkeys(names, 4 * KIB), operations, took_s)


def _written(means: Mapping[str, float], size: int) -> Part:
    mibs = size // MIB
    took_s = means["create"] + mibs * (means[f"write_{MIB}"] + means.get("close_mib", 0.0))
    return Part("write", {"data": size}, [{"write": "data"}, {"close": "data"}], took_s)


def _read(means: Mapping[str, float], size: int) -> Part:
    mibs, cold_s = size // MIB, means[f"cold_{MIB}"]
    took_s = 2 * (means["open"] + means["close_read"]) + mibs * means[f"warm_{MIB}"]
    took_s += means.get(f"first_{MIB}", cold_s) + (mibs - 1) * cold_s
    operations = [{"open": "data"}, {"read": "data"}, {"close": "data"}] * 2
    return Part("read, cold and warm", {"data": size}, operations, took_s)


def _read_far(means: Mapping[str, float], size: int) -> Part:
    took_s = means["far_open"] + means["close_read"] + size // MIB * means[f"far_{MIB}"]
    operations = [{"open": "data"}, {"read": "data"}, {"close": "data"}]
    # One host only stores, so that the other one reads from it.
    options = ("--hosts", "2", "--storage-hosts", "1")
    return Part("read by another host", {"data": size}, operations, took_s, options)


def closure(profile: Mapping[str, Any], found: Measurement) -> list[dict[str, Any]]:
    """Return for each part what is foretold, what was measured, and how far the one is off."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "profile.json"
        path.write_text(json.dumps(profile), encoding="utf-8")
        return [_compared(part, path) for part in parts(found)]


def _compared(part: Part, profile: Path) -> dict[str, Any]:
    path = profile.with_name("workload.json")
    path.write_text(json.dumps(part.workload()), encoding="utf-8")
    predicted_s = _predicted_s(path, profile, part.options)
    return {
        "part": part.name,
        "predicted_seconds": predicted_s,
        "measured_seconds": part.measured_s,
        "error": predicted_s / part.measured_s - 1,
    }


def _predicted_s(workload: Path, profile: Path, options: tuple[str, ...]) -> float:
    try:
        words = [str(find_binary()), "predict", str(workload), "--profile", str(profile), *options]
    except StoreError as error:
        raise SeedError(f"--check: {error}") from None
    words += ["--chunk", "1MiB", "--runs", str(_RUNS), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SeedError(f"--check: {done.stderr.strip()}")
    return float(json.loads(done.stdout)["makespan_seconds"]["mean"])
