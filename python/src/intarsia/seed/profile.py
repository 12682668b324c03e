"""A measurement as the profile that `intarsia predict` reads; docs/user/predict.md has the form."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from intarsia.release import installed_version
from intarsia.seed.compute import memory_bytes, processors
from intarsia.seed.effects import BURST, Effect, effects
from intarsia.seed.findings import gain, line
from intarsia.seed.home import by_mode, placement
from intarsia.seed.links import PLACED_BYTES
from intarsia.seed.mounts import device_number, file_system
from intarsia.seed.probe import MIB
from intarsia.seed.rounds import DISTURBED, Measurement, Plan
from intarsia.seed.samples import of_metadata, of_requests
from intarsia.seed.statistics import estimate, quantiles
from intarsia.seed.told import told
from intarsia.seed.unlike import share_processors, times_as_fast, unlike_hosts

_SMALL = 4096
MOST_SLOTS = 8
#: A reader of another host's file asks for pieces ahead; a call to the own host is one at a time.
_AHEAD = 16
_CLASSES = {"tmpfs": "memory", "ramfs": "memory"}
#: What clients of ours do with files that are dealt over hosts.
_OF_INTARSIA = {
    "opens_parts": True,
    "striped_window_bytes": MIB,
    "inline_bytes": 4096,
    "sums_written": True,
}
#: Work of which several processes at once are measured; a profile has the gain of each.
_CROWDED = ("names", "write", "read", "copy")


@dataclass(frozen=True, slots=True)
class Made:
    """What a profile says beside what was measured: `hosts` of this kind, on links of such a rate.

    `link_bytes_per_s` is assumed where no other host was measured; None is unknown. `host_names`
    are those of the store, if it says them.
    """

    name: str
    hosts: int
    link_bytes_per_s: float | None
    tier_class: str | None
    command: Sequence[str]
    host_names: Sequence[str] = ()


def profile_of(found: Measurement, plan: Plan, made: Made) -> dict[str, Any]:
    """Return the profile as JSON."""
    means, _ = by_mode(found)
    numbers = numbers_of(means, plan.slots)
    drawn = numbers | of_requests(found, numbers)
    seen = effects(found)
    there = {one.name for one in seen if one.is_there}
    host = _host(found, plan, made, numbers, there)
    profile: dict[str, Any] = {
        "format": "intarsia-profile",
        "version": 1,
        "name": made.name,
        "provenance": _provenance(found, plan, made),
        "hosts": made.hosts,
        "host": host,
        "network": _network(drawn),
        "manager": of_metadata(found),
        "tiers": [_tier(plan, made, drawn, there)],
        "placement": placement(found),
        "client": _client(found, plan),
        "measured": _measured(found, plan, seen),
    }
    if share_processors(found):
        profile["shared_processors"] = processors()
    if made.host_names:
        profile["host_names"] = [*made.host_names[: made.hosts]]
    if others := unlike_hosts(found, plan, host, MOST_SLOTS):
        profile["unlike_hosts"] = others
    profile["provenance"]["told"] = told(profile, _asked(plan, made))
    return profile


def _host(
    found: Measurement,
    plan: Plan,
    made: Made,
    numbers: Mapping[str, float],
    there: Collection[str],
) -> dict[str, Any]:
    link = numbers.get("link.bytes_per_second", made.link_bytes_per_s or numbers["warm"])
    is_kept = "page cache" in there or "page cache of other hosts" in there
    host: dict[str, Any] = {
        "slots": plan.slots,
        "in_bytes_per_second": link,
        "out_bytes_per_second": link,
        "cache_bytes": memory_bytes() if is_kept else 0,
    }
    if is_kept:
        host["cache_bytes_per_second"] = numbers["warm"]
    if f"crowding.{_CROWDED[0]}" in numbers:
        gains = {kind: numbers[f"crowding.{kind}"] for kind in _CROWDED}
        host["crowding"] = {"at_once": plan.slots, **gains}
    if found.power is not None:
        host["power"] = found.power
    return host


def _network(drawn: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "latency_seconds": drawn.get("network.latency_seconds", 0.0),
        "loopback_bytes_per_second": drawn["warm"],
        "sharing": "fair",
        "burst_bytes": round(drawn.get("network.burst_bytes", 0)),
        "queue_bytes": round(drawn.get("network.queue_bytes", 0)),
    }


def _tier(
    plan: Plan, made: Made, drawn: Mapping[str, Any], there: Collection[str]
) -> dict[str, Any]:
    state = os.statvfs(plan.directory)
    tier: dict[str, Any] = {
        "class": made.tier_class or tier_class(plan.directory),
        "capacity_bytes": state.f_bavail * state.f_frsize,
        "read": _access(drawn, "read", has_medium="page cache" in there),
        "write": _access(drawn, "write", has_medium=False),
    }
    limit_bytes = unwritten_limit_bytes()
    if "write_back.bytes_per_second" in drawn and limit_bytes and "buffered writes" in there:
        rate = drawn["write_back.bytes_per_second"]
        tier["write_back"] = {"bytes": limit_bytes, "bytes_per_second": rate}
    return tier


def _client(found: Measurement, plan: Plan) -> dict[str, Any]:
    return {
        "outstanding_chunks": 1 if plan.remote is None else _AHEAD,
        "local_access": "call",
        "keeps_striped": _keeps_dealt(found),
        **(_OF_INTARSIA if "dealt_far" in found.means else {}),
    }


def _asked(plan: Plan, made: Made) -> dict[str, str]:
    """Return how places are known that the command line decides."""
    by_class = "--class" if made.tier_class else "the device, as the kernel says"
    asked = {"hosts": "--hosts, or those that were measured", "tiers.0.class": by_class}
    asked["host.slots"] = "--slots, or the processors of this host"
    if plan.remote is None:
        link = "--link" if made.link_bytes_per_s else "no link was measured: as fast as memory"
        asked |= {f"host.{way}_bytes_per_second": link for way in ("in", "out")}
    if plan.power is not None:
        asked["host.power"] = f"--power {plan.power}"
    return asked


def numbers_of(means: Mapping[str, float], slots: int = 1) -> dict[str, float]:
    """Return the numbers of a profile, each by its name, from the mean of each time."""
    numbers: dict[str, float] = {}
    # What a close takes by the byte belongs to the bytes: some stores send them then.
    sent_s = max(0.0, means.get("close_mib", 0.0) - means["close_write"])
    for kind, name, later_s in (("write", "write", sent_s), ("cold", "read", 0.0)):
        small, large = means[f"{kind}_{_SMALL}"], means[f"{kind}_{MIB}"] + later_s
        slope = max((large - small) / (MIB - _SMALL), large / MIB / 10)
        numbers[f"{name}.request_seconds"] = max(0.0, large - slope * MIB)
        numbers[f"{name}.bytes_per_second"] = 1 / slope
    if f"first_{MIB}" in means:
        small, large = means[f"first_{_SMALL}"], means[f"first_{MIB}"]
        slope = max((large - small) / (MIB - _SMALL), large / MIB / 10)
        numbers["read.first.request_seconds"] = max(0.0, large - slope * MIB)
        numbers["read.first.bytes_per_second"] = 1 / slope
    numbers |= _burst(means, numbers)
    numbers["warm"] = MIB / means[f"warm_{MIB}"]
    surplus = max(0.0, means["first_write"] - means[f"write_{_SMALL}"])
    numbers["manager.open_seconds"] = means["open"] + means["close_read"]
    numbers["manager.allocate_seconds"] = means["create"] + surplus
    numbers["manager.commit_seconds"] = means["close_write"]
    if f"far_{MIB}" in means:
        numbers["link.bytes_per_second"] = MIB / means[f"far_{MIB}"]
        numbers["network.latency_seconds"] = max(0.0, means["far_open"] - means["open"]) / 2
        numbers["network.burst_bytes"] = _burst_bytes(means)
        numbers["network.queue_bytes"] = _queue_bytes(means)
    if means.get("fsync_mib"):
        numbers["write_back.bytes_per_second"] = MIB / means["fsync_mib"]
    gains = {kind: gain(means, kind, slots) for kind in _CROWDED}
    numbers |= {f"crowding.{kind}": one for kind, one in gains.items() if one is not None}
    return numbers


def _burst(means: Mapping[str, float], numbers: Mapping[str, float]) -> dict[str, float]:
    """Return what a device lets pass at once, and its rate after that, if it does slow down."""
    first = numbers.get("read.first.bytes_per_second", 0.0)
    late_s = means.get("late_mib", 0.0)
    # What is read first tells the rate of a burst, unless reading ahead was even slower.
    if late_s <= BURST * means.get("early_mib", late_s) or first * late_s <= BURST * MIB:
        return {}
    usual = MIB / late_s
    # All but what passed at the rate of the burst passed at the usual one.
    burst = max(0.0, means["burst_s"]) / (1 / usual - 1 / first)
    return {
        "read.request_seconds": 0.0,
        "read.bytes_per_second": usual,
        "read.burst_bytes": float(round(burst)),
        "read.burst_bytes_per_second": first,
    }


def _burst_bytes(means: Mapping[str, float]) -> float:
    """Bytes that pass a link at once after it was idle.

    By how much a small file comes sooner then than at the rate of large ones; at most half of it.
    """
    if "placed_far" not in means:
        return 0.0
    seconds = max(0.0, means["placed_far"] - means["far_open"])
    sooner = PLACED_BYTES - seconds / means[f"far_{MIB}"] * MIB
    return float(round(min(PLACED_BYTES / 2, max(0.0, sooner))))


def _queue_bytes(means: Mapping[str, float]) -> float:
    """Bytes that stand in the queue of a link that is full: what a message waits for then."""
    return float(round(means.get("busy_wait", 0.0) / means[f"far_{MIB}"] * MIB))


def _keeps_dealt(found: Measurement) -> bool:
    """Whether another host keeps what it has read of a file that is dealt over hosts, if any is."""
    if not {"dealt_far", "dealt_again"} <= found.means.keys():
        return True
    return found.estimate("dealt_again").mean < found.estimate("dealt_far").mean / 2


#: Where in a profile each number of `numbers_of` stands; several places hold the same number.
PLACES: dict[str, tuple[str, ...]] = {
    "write.request_seconds": ("tiers.0.write.request_seconds",),
    "write.bytes_per_second": ("tiers.0.write.bytes_per_second",),
    "read.request_seconds": ("tiers.0.read.request_seconds",),
    "read.first.request_seconds": ("tiers.0.read.first.request_seconds",),
    "read.first.bytes_per_second": ("tiers.0.read.first.bytes_per_second",),
    "read.bytes_per_second": ("tiers.0.read.bytes_per_second",),
    "read.burst_bytes": ("tiers.0.read.burst.bytes",),
    "read.burst_bytes_per_second": ("tiers.0.read.burst.bytes_per_second",),
    "warm": ("host.cache_bytes_per_second", "network.loopback_bytes_per_second"),
    "manager.open_seconds": ("manager.open_seconds",),
    "manager.allocate_seconds": ("manager.allocate_seconds",),
    "manager.commit_seconds": ("manager.commit_seconds",),
    "link.bytes_per_second": ("host.in_bytes_per_second", "host.out_bytes_per_second"),
    "network.latency_seconds": ("network.latency_seconds",),
    "network.burst_bytes": ("network.burst_bytes",),
    "network.queue_bytes": ("network.queue_bytes",),
    "write_back.bytes_per_second": ("tiers.0.write_back.bytes_per_second",),
    **{f"crowding.{kind}": (f"host.crowding.{kind}",) for kind in _CROWDED},
}


def _access(numbers: Mapping[str, Any], kind: str, *, has_medium: bool) -> dict[str, Any]:
    """Return what a request takes; of one that has to reach a medium at first, that too."""
    names = ("request_seconds", "bytes_per_second")
    made: dict[str, Any] = {name: numbers[f"{kind}.{name}"] for name in names}
    if has_medium and f"{kind}.first.{names[0]}" in numbers:
        made["first"] = {name: numbers[f"{kind}.first.{name}"] for name in names}
    if has_medium and f"{kind}.burst_bytes" in numbers:
        burst = round(numbers[f"{kind}.burst_bytes"])
        rate = numbers[f"{kind}.burst_bytes_per_second"]
        made["burst"] = {"bytes": burst, "bytes_per_second": rate}
    return made


def _provenance(found: Measurement, plan: Plan, made: Made) -> dict[str, Any]:
    now = datetime.now(UTC).replace(microsecond=0).isoformat()
    where = f"{plan.directory} on {platform.node()}"
    for remote in plan.remotes:
        where += f", and {remote.directory}"
        where += f" by '{shlex.join(remote.through)}'" if remote.through else ""
    note = f"{where}, {now}, {found.rounds} rounds in {found.took_s:.0f} s"
    if made.hosts > 1 and plan.remote is None:
        note += "; links are assumed"
    return {
        "source": "measured",
        "note": note,
        "host": platform.node(),
        "kernel": platform.release(),
        "measured_at": now,
        "command": shlex.join(made.command),
        "program": f"intarsia {installed_version()}",
    }


def _measured(found: Measurement, plan: Plan, seen: Sequence[Effect]) -> dict[str, Any]:
    """All that was found, for people, reports and checks; the model does not read it."""
    return {
        "rounds": found.rounds,
        "took_seconds": round(found.took_s, 3),
        "size_bytes": found.size_bytes,
        "precision": plan.precision,
        "not_precise": {
            name: round(share, 4) if share < 1e6 else None
            for name, share in found.imprecise(plan.precision).items()
        },
        "disturbed_share": found.estimate(DISTURBED).mean,
        "as_loaded": plan.as_loaded,
        "load_average": os.getloadavg()[0],
        "slots": plan.slots,
        "seconds": {name: _told(found, name) for name in found.names()},
        "effects": [_effect(one) for one in seen],
        "hosts": _hosts(found, plan),
        "misfit_at_64_kib": {kind: line(found, kind).misfit for kind in ("write", "cold", "warm")},
        "numbers": _intervals(found, plan.slots),
    }


def _effect(one: Effect) -> dict[str, Any]:
    return {
        "name": one.name,
        "times": one.times,
        "ratio": one.ratio.mean,
        "half_width": one.ratio.half_width,
        "is_there": one.is_there,
        "text": one.text,
    }


def _hosts(found: Measurement, plan: Plan) -> list[dict[str, Any]]:
    """What is known of each other host: how many times as fast it is, and what its kernel says."""
    return [
        {
            "number": number,
            "directory": str(remote.directory),
            "through": shlex.join(remote.through),
            **{name: int(facts[name][0]) for name in ("processors", "memory_bytes")},
            "times_as_fast": {
                name: {"mean": one.mean, "low_95": one.low, "high_95": one.high}
                for name, one in times_as_fast(found, number).items()
            },
        }
        for number, (remote, facts) in enumerate(
            zip(plan.remotes, found.facts, strict=True), start=1
        )
    ]


def _told(found: Measurement, name: str) -> dict[str, float | int]:
    known = found.estimate(name)
    return {
        "mean": known.mean,
        "half_width_95": known.half_width,
        "first_round": found.first.get(name, known.mean),
        "calls": len(found.times[name]),
        **quantiles(found.times[name]),
    }


def _intervals(found: Measurement, slots: int) -> dict[str, Any]:
    """Each number of the profile: its places there, its value in each round, and the interval."""
    typical, by_round = by_mode(found)
    rounds = [numbers_of(means, slots) for means in by_round]
    overall = numbers_of(typical, slots)
    return {
        name: {
            "places": PLACES[name],
            "value": value,
            "half_width_95": estimate([one.get(name, value) for one in rounds]).half_width,
            "by_round": [one.get(name, value) for one in rounds],
        }
        for name, value in overall.items()
    }


def tier_class(directory: Path) -> str:
    """Return memory, ssd or disk: what the kernel says of the file system and of its device."""
    kind = file_system(directory)
    if kind in _CLASSES:
        return _CLASSES[kind]
    block = Path("/sys/dev/block") / device_number(directory)
    for queue in (block / "queue", block / ".." / "queue"):
        try:
            spins = (queue / "rotational").read_text().strip() == "1"
        except OSError:
            continue
        return "disk" if spins else "ssd"
    return "ssd"


def unwritten_limit_bytes() -> int:
    """How many bytes the kernel takes in before it slows writers down; 0 where it does not say.

    It lets them run up to half way between the limit at which it begins to write by itself and that
    at which it blocks (`balance_dirty_pages` in the kernel's mm/page-writeback.c).
    """
    memory = memory_bytes()
    limits = []
    for name in ("dirty", "dirty_background"):
        told = _setting(f"{name}_bytes") or _setting(f"{name}_ratio") * memory // 100
        limits.append(told)
    return sum(limits) // 2


def _setting(name: str) -> int:
    try:
        return int(Path(f"/proc/sys/vm/{name}").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
