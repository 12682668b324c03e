"""Measuring loads on simulated stores."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Load
from intarsia.store import StoreError, find_binary

Settings = dict[str, Any]
"""A store as `intarsia simulate datastores` reads it."""


@dataclass(frozen=True)
class StreamMeasured:
    """What one load saw."""

    mean_ms: float
    p99_ms: float
    iops: float


@dataclass(frozen=True)
class Measured:
    """What all loads on one store saw."""

    mean_ms: float
    """Over all requests of the store."""
    p99_ms: float
    iops: float
    random: float
    """Requests that started far from the end of the one before, in per cent."""
    seek_within: float
    """Requests that went elsewhere than the one before, of the same load, in per cent."""
    seek_between: float
    """Requests that came after one of another load, in per cent."""
    streams: tuple[StreamMeasured, ...]
    """Each load, in order."""
    trace: tuple[dict[str, Any], ...] = ()


@cache
def presets() -> dict[str, Settings]:
    """Return the stores that come with the package."""
    return tomllib.loads((files(__package__) / "presets.toml").read_text())


def preset(name: str) -> Settings:
    """Return a store that comes with the package.

    Raises `CharacteriseError` when there is none of that name.
    """
    if name not in presets():
        raise CharacteriseError(f"no simulated store '{name}'; there are {', '.join(presets())}")
    return presets()[name]


def measure(
    cases: Sequence[tuple[Settings, Sequence[Load]]],
    *,
    seed: int = 1,
    requests: int = 800,
    warmup: int = 500,
    trace: int = 0,
) -> list[Measured]:
    """Simulate loads together on a store, for many cases at once; each case has its own seed.

    A case without loads gives zeros. Raises `CharacteriseError` when the binary is missing or
    refuses a store.
    """
    runs = [
        {
            "store": settings,
            "streams": [_stream(load) for load in loads],
            "seed": seed * 1_000_003 + number,
            "requests": requests,
            "warmup": warmup,
            "trace": trace,
        }
        for number, (settings, loads) in enumerate(cases)
    ]
    return [_measured(one) for one in _run(runs)] if runs else []


def _stream(load: Load) -> dict[str, Any]:
    return {
        "random": load.random / 100,
        "read": load.read / 100,
        "bytes": max(512, round(load.bytes)),
        "outstanding": max(1, round(load.outstanding)),
    }


def _measured(outcome: dict[str, Any]) -> Measured:
    return Measured(
        mean_ms=outcome["mean_ms"],
        p99_ms=outcome["p99_ms"],
        iops=outcome["iops"],
        random=100 * outcome["random_share"],
        seek_within=100 * outcome["seek_within_share"],
        seek_between=100 * outcome["seek_between_share"],
        streams=tuple(
            StreamMeasured(one["mean_ms"], one["p99_ms"], one["iops"]) for one in outcome["streams"]
        ),
        trace=tuple(outcome.get("trace", ())),
    )


def _run(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        binary = find_binary()
    except StoreError as error:
        raise CharacteriseError(str(error)) from error
    done = subprocess.run(
        [str(binary), "simulate", "datastores", "-"],
        input=json.dumps(runs),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CharacteriseError(done.stderr.strip().removeprefix("error: ") or "no answer")
    answer = json.loads(done.stdout)
    return [dict(one) for one in answer]
