"""Hosts that are not like the first one, or whose link is not like that of the second."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intarsia.seed.compute import boot
from intarsia.seed.probe import MIB
from intarsia.seed.rounds import Measurement, Plan, of_host
from intarsia.seed.statistics import estimate

#: Memory that is available comes and goes: less than such a share is no difference.
_MEMORY = 0.1
#: The logarithm of more than any ratio: of one round nothing is known.
_MOST_LOG = 700.0


def unlike_hosts(
    found: Measurement, plan: Plan, host: Mapping[str, Any], most_slots: int
) -> list[dict[str, Any]]:
    """Return `unlike_hosts` of a profile whose `host` is this: in what each other host differs.

    What was timed differs where the whole interval of the ratio is beyond 1, by more than the
    precision. Without a number of slots that was told, a host has as many as processors.
    """
    made = []
    for number, facts in enumerate(found.facts, start=1):
        changed = _timed(found, plan, host, number)
        slots = min(most_slots, int(facts["processors"][0]))
        if not plan.has_told_slots and slots != host["slots"]:
            changed["slots"] = slots
        memory, usual = int(facts["memory_bytes"][0]), host.get("cache_bytes", 0)
        if usual and abs(memory / usual - 1) > _MEMORY:
            changed["cache_bytes"] = memory
        if changed:
            made.append({"numbers": [number], **changed})
    return made


def share_processors(found: Measurement) -> bool:
    """Whether all hosts that were measured are one machine: they have the kernel of this one."""
    here = boot()
    return here != 0 and bool(found.facts) and all(one.get("boot") == [here] for one in found.facts)


@dataclass(frozen=True, slots=True)
class TimesAsFast:
    """How many times as fast, and the 95 % interval of that."""

    mean: float
    low: float
    high: float

    def is_beyond(self, precision: float) -> bool:
        """Whether all of it is beyond 1, and the mean by more than a share."""
        return not self.low <= 1 <= self.high and abs(self.mean - 1) > precision


def times_as_fast(found: Measurement, number: int) -> dict[str, TimesAsFast]:
    """Compare a host: to compute with the first one, else with the second."""
    pairs = {"speed": ("compute", of_host(number, "compute"))}
    if number > 1:
        pairs["link"] = (f"far_{MIB}", of_host(number, f"far_{MIB}"))
        pairs["cache"] = (f"again_{MIB}", of_host(number, f"again_{MIB}"))
    means = found.means
    return {
        name: _times(means[usual], means[there])
        for name, (usual, there) in pairs.items()
        if usual in means and there in means
    }


def _times(usual_s: Sequence[float], there_s: Sequence[float]) -> TimesAsFast:
    """Compare times that were taken together: by logarithms, of which a late one is no more."""
    logs = [math.log(usual / there) for usual, there in zip(usual_s, there_s, strict=True)]
    known = estimate(logs)
    low, high = known.mean - known.half_width, known.mean + known.half_width
    return TimesAsFast(math.exp(known.mean), math.exp(low), math.exp(min(high, _MOST_LOG)))


def _timed(
    found: Measurement, plan: Plan, host: Mapping[str, Any], number: int
) -> dict[str, float]:
    unlike = {
        name: one.mean
        for name, one in times_as_fast(found, number).items()
        if one.is_beyond(plan.precision)
    }
    changed = {}
    if "speed" in unlike:
        changed["speed"] = host.get("speed", 1.0) * unlike["speed"]
    if "link" in unlike:
        for way in ("in", "out"):
            name = f"{way}_bytes_per_second"
            changed[name] = host[name] * unlike["link"]
    if "cache" in unlike and "cache_bytes_per_second" in host:
        name = "cache_bytes_per_second"
        changed[name] = host[name] * unlike["cache"]
    return changed
