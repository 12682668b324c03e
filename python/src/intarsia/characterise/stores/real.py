"""Measuring loads on real stores, by fio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import fio
from intarsia.characterise.experiment.target import Target
from intarsia.characterise.load import Load

_FILE = ".intarsia-measure"
_FEWEST = 20
"""A mean of fewer requests is none."""
_LONGER = (1, 4, 16)
"""A slow store gets so many times as long."""
_LIMIT_S = 120.0


@dataclass(frozen=True)
class Way:
    """How loads are measured."""

    seconds: float = 0.5
    warmup_s: float = 0.3
    size_bytes: int = 256 * 2**20
    """The file or part of a device that is used."""
    is_buffered: bool = False
    """Through the page cache; else past it."""


def measure(target: Target, loads: Sequence[Load], way: Way) -> float:
    """Return the mean latency of all requests of loads at the same time, in ms.

    Each load has a part of the file or device for itself. Raises `CharacteriseError` when too few
    requests are answered, and when loads would write where they may not.
    """
    if not target.may_write and any(load.read < 100 for load in loads):
        raise CharacteriseError(
            f"{target.path} is a device, and these loads write: give --overwrite-device to lose "
            "what is on it, or --only-reads"
        )
    for factor in _LONGER:
        count, latency_ms = _call(target, loads, way, factor * way.seconds)
        if count >= _FEWEST:
            return latency_ms
    raise CharacteriseError(
        f"{target.label}: only {count} requests within {_LONGER[-1] * way.seconds:g} s: give more "
        "--seconds"
    )


def _call(target: Target, loads: Sequence[Load], way: Way, seconds: float) -> tuple[int, float]:
    """Return how many requests were answered, and their mean latency in ms."""
    part = way.size_bytes // len(loads) // 2**20 * 2**20
    common = [
        f"--runtime={fio.milliseconds(seconds)}",
        f"--ramp_time={fio.milliseconds(way.warmup_s)}",
        "--time_based",
        "--norandommap=1",
        "--randrepeat=0",
        f"--direct={int(not way.is_buffered)}",
        "--ioengine=libaio",
        f"--size={part}",
    ]
    jobs = [[*_options(load), f"--offset={number * part}"] for number, load in enumerate(loads)]
    kept = tuple(option for option in target.options if option != "--unlink=1")
    # A name that is given before the directory would be one in the present directory.
    file = (f"--filename={_FILE}", f"--filesize={way.size_bytes}") if target.is_file_made else ()
    placed = replace(target, options=(*kept, *file))
    report = fio.call(common, jobs, placed, _LIMIT_S + 10 * seconds)
    job = report["jobs"][0]
    count = job["read"]["total_ios"] + job["write"]["total_ios"]
    return count, fio.metrics(job)["latency"]


def tidy(target: Target) -> None:
    """Remove the file that `measure` made."""
    if target.is_file_made:
        (target.path / _FILE).unlink(missing_ok=True)


def _options(load: Load) -> list[str]:
    return [
        "--rw=randrw" if load.read < 100 else "--rw=randread",
        *([f"--rwmixread={round(load.read)}"] if load.read < 100 else []),
        f"--percentage_random={round(load.random)}",
        f"--bs={max(512, round(load.bytes / 512) * 512)}",
        f"--iodepth={max(1, round(load.outstanding))}",
    ]
