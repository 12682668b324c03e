"""What each number of a profile changes within its interval, and whether the advice with it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.advice.ask import Program

#: How far a number is moved that nobody measured.
ASSUMED_SHARE = 0.1
#: Numbers of a profile that nobody measured, and what they are called.
_USUAL = {
    "write.bytes_per_second": ("tiers.0.write.bytes_per_second",),
    "write.request_seconds": ("tiers.0.write.request_seconds",),
    "read.bytes_per_second": ("tiers.0.read.bytes_per_second",),
    "read.request_seconds": ("tiers.0.read.request_seconds",),
    "warm": ("host.cache_bytes_per_second",),
    "manager.open_seconds": ("manager.open_seconds",),
    "manager.allocate_seconds": ("manager.allocate_seconds",),
    "manager.commit_seconds": ("manager.commit_seconds",),
    "link.bytes_per_second": ("host.in_bytes_per_second", "host.out_bytes_per_second"),
    "network.latency_seconds": ("network.latency_seconds",),
    "speed": ("host.speed",),
}


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a profile: where it stands, its value, and half of its 95 % interval."""

    name: str
    places: tuple[str, ...]
    value: float
    half_width: float
    is_measured: bool


@dataclass(frozen=True, slots=True)
class Effect:
    """What a number at both ends of its interval makes of the makespan, in seconds.

    `overtaken` is whether the runner-up is predicted faster at one of them.
    """

    number: Number
    low_s: float
    high_s: float
    overtaken: bool

    @property
    def span_s(self) -> float:
        """How far the makespan moves."""
        return abs(self.high_s - self.low_s)


def numbers_of(profile: Mapping[str, Any]) -> Iterator[Number]:
    """Return the numbers of a profile that have a value above 0."""
    measured = profile.get("measured", {}).get("numbers", {})
    if measured:
        for name, told in measured.items():
            value = float(told["value"])
            if value > 0:
                half_width = min(float(told["half_width_95"]), 0.9 * value)
                yield Number(name, tuple(told["places"]), value, half_width, True)
        return
    for name, places in _USUAL.items():
        found = _mean(_at(profile, places[0]))
        if found:
            yield Number(name, places, found, ASSUMED_SHARE * found, False)


def effects(
    program: Program,
    profile: Mapping[str, Any],
    best: Mapping[str, Any],
    other: Mapping[str, Any] | None,
    scratch: Path,
) -> list[Effect]:
    """Move each number to both ends of its interval; the most effective comes first."""
    found = []
    for number in numbers_of(profile):
        ends, overtaken = [], False
        for value in (number.value - number.half_width, number.value + number.half_width):
            moved = _moved(profile, number, value)
            seconds = _makespan(program, best, scratch, moved)
            if other is not None:
                overtaken |= _makespan(program, other, scratch, moved) < seconds
            ends.append(seconds)
        found.append(Effect(number, ends[0], ends[1], overtaken))
    return sorted(found, key=lambda effect: -effect.span_s)


def _makespan(
    program: Program, configuration: Mapping[str, Any], scratch: Path, profile: Mapping[str, Any]
) -> float:
    answer = program.predict(configuration, scratch, profile, runs=1)
    return float(answer["makespan_seconds"]["mean"])


def _moved(profile: Mapping[str, Any], number: Number, value: float) -> dict[str, Any]:
    """The profile with a number changed: measured times of a service are all multiplied."""
    made = copy.deepcopy(dict(profile))
    for place in number.places:
        *path, last = place.split(".")
        within: Any = made
        for word in path:
            within = within[int(word)] if word.isdecimal() else within.get(word, {})
        if last not in within:
            continue
        if isinstance(within[last], dict):
            factor = value / number.value
            within[last] = {"samples": [one * factor for one in within[last]["samples"]]}
        else:
            within[last] = value
    return made


def _at(profile: Mapping[str, Any], place: str) -> Any:
    within: Any = profile
    for word in place.split("."):
        if isinstance(within, list):
            within = within[int(word)] if int(word) < len(within) else None
        else:
            within = within.get(word)
        if within is None:
            return None
    return within


def _mean(value: Any) -> float:
    if isinstance(value, dict):
        samples = value.get("samples", [])
        return sum(samples) / len(samples) if samples else 0.0
    return float(value) if isinstance(value, int | float) else 0.0
