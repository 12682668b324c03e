"""Times of requests as a profile has them: some of those that were measured, with their mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from intarsia.seed.home import border_s, placement
from intarsia.seed.rounds import Measurement
from intarsia.seed.statistics import thinned

#: At most so many of each kind: means of groups of about as many calls, so quantiles stay.
MOST = 200
_SMALL = 4096
#: Where a profile has what a call of 4 KiB takes beside its bytes, and how such calls are named.
_OF_TIERS = {
    "write": ("write", "bytes_per_second", "request_seconds"),
    "cold": ("read", "bytes_per_second", "request_seconds"),
    "first": ("read", "first.bytes_per_second", "first.request_seconds"),
}


def of_metadata(found: Measurement) -> dict[str, dict[str, list[float]]]:
    """Return what a profile says of requests to metadata, one sample of each call."""
    times = found.times
    usual = found.estimate(f"write_{_SMALL}").mean
    surplus = max(0.0, found.estimate("first_write").mean - usual)
    closing = found.estimate("close_read").mean
    made = {
        "open_seconds": [one + closing for one in times["open"]],
        "allocate_seconds": [one + surplus for one in times["create"]],
        "commit_seconds": times["close_write"],
    }
    if "held_create" in times:
        # The other host has used the directory by then, and is told of the name.
        made["allocate_shared_seconds"] = [one + surplus for one in times["held_create"]]
    return {name: {"samples": thinned(seconds, MOST)} for name, seconds in made.items()}


def of_requests(found: Measurement, numbers: Mapping[str, float]) -> dict[str, Any]:
    """Return what requests to a tier and messages take, by the names of `numbers`.

    Of a call of 4 KiB it is what it takes beside its bytes, of a message half of what opening takes
    longer on another host. The mean of samples is the number whose place they take.
    """
    made: dict[str, Any] = {}
    for kind, (access, rate, request) in _OF_TIERS.items():
        name = f"{access}.{request}"
        if name in numbers:
            bytes_s = _SMALL / numbers[f"{access}.{rate}"]
            seconds = [one - bytes_s for one in _here(found, f"{kind}_{_SMALL}")]
            made[name] = _with_mean(seconds, numbers[name])
    if (latency_s := numbers.get("network.latency_seconds")) is not None:
        open_s = found.estimate("open").mean
        crossed = [(one - open_s) / 2 for one in found.times.get("far_open", ())]
        made["network.latency_seconds"] = _with_mean(crossed, latency_s)
    return made


def _here(found: Measurement, name: str) -> list[float]:
    """Return the times of calls, of files that lie here where a store spreads them."""
    times = found.times.get(name, [])
    border = None if placement(found) == "local" else border_s(times, spare=0)
    return [one for one in times if border is None or one < border]


def _with_mean(seconds: Iterable[float], mean: float) -> Any:
    """Return samples that have this mean, or the mean alone where all would be alike.

    >>> _with_mean([-1.0, 1.0, 3.0], 2.0)
    {'samples': [0.0, 1.5, 4.5]}
    """
    kept = thinned([max(0.0, one) for one in seconds], MOST)
    total = sum(kept)
    if not total or not mean or min(kept) == max(kept):
        return mean
    return {"samples": [one * mean * len(kept) / total for one in kept]}
