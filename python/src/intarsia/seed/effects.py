"""Peculiarities of a store that times tell: each is a ratio of two of them."""

from __future__ import annotations

from dataclasses import dataclass

from intarsia.seed.probe import MIB
from intarsia.seed.rounds import Measurement
from intarsia.seed.statistics import Estimate, ratio, ratio_bounds

_MIDDLE = 65536
#: A device has a burst if it is so many times as slow later: above this the profile changes.
BURST = 2.0
#: Calls that a program or another host answers take more than so many times those of a kernel.
_ASKED = 3.0


@dataclass(frozen=True, slots=True)
class Effect:
    """A peculiarity that was looked for: a ratio of two times, and whether it is there."""

    name: str
    times: tuple[str, str]
    ratio: Estimate
    is_there: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Sought:
    """It is there if the whole interval of the ratio is above a bound, worth a word from there.

    What is said is filled in with the ratio and both times.
    """

    name: str
    times: tuple[str, str]
    above: float
    there: str
    absent: str


_SOUGHT = (
    _Sought(
        "page cache",
        (f"cold_{MIB}", f"warm_{MIB}"),
        1.2,
        "what was read or written is kept in memory: the first read takes {:.2f} times as long",
        "reads take as long again: no memory is seen beside the store",
    ),
    _Sought(
        "page cache of other hosts",
        (f"far_{MIB}", f"again_{MIB}"),
        1.2,
        "what another host has read is kept there: the first read takes {:.2f} times as long",
        "another host that reads again asks again",
    ),
    _Sought(
        "read-ahead",
        (f"anywhere_{_MIDDLE}", f"cold_{_MIDDLE}"),
        1.5,
        "reading on is foreseen: 64 KiB anywhere take {:.2f} times as long",
        "reading on is not foreseen, or costs nothing",
    ),
    _Sought(
        "burst",
        ("late_mib", "early_mib"),
        BURST,
        "the device slows down after a burst: what is read later takes {:.2f} times as long",
        "reading is as fast later as at first",
    ),
    _Sought(
        "first touch",
        (f"write_{MIB}", f"over_{MIB}"),
        1.1,
        "new bytes take {:.2f} times as long as writing over old ones",
        "new bytes cost no more than writing over old ones",
    ),
    _Sought(
        "buffered writes",
        ("fsync_mib", f"write_{MIB}"),
        0.5,
        "a write returns before its bytes are safe: fsync takes {:.2f} times as long again",
        "fsync adds little: a write is safe when it returns, or nothing makes it safe",
    ),
    _Sought(
        "removed names",
        ("create_after", "create"),
        1.5,
        "making a file soon after many were removed takes {:.2f} times as long",
        "making a file takes no longer after many were removed",
    ),
    *(
        _Sought(
            f"metadata leases, {call}",
            (f"changed_{call}", f"calm_{call}"),
            1.5,
            f"the first {call} in a directory that another host has just changed takes {{:.2f}} "
            "times as long ({} instead of {})",
            f"in a directory that another host has just changed the first {call} takes no longer "
            "({1} and {2})",
        )
        for call in ("stat", "open", "create")
    ),
    _Sought(
        "metadata leases, change",
        ("taken_create", "held_create"),
        1.5,
        "the first create in a directory that another host knows takes {:.2f} times as long as "
        "the next ({} instead of {})",
        "changing a directory that another host knows costs no more at first ({1} and {2})",
    ),
)


def effects(found: Measurement) -> list[Effect]:
    """Look for all of which times were taken."""
    made = [_effect(found, one) for one in _SOUGHT]
    made += [_passthrough(found, call) for call in ("read", "write")]
    return [one for one in made if one is not None]


def _effect(found: Measurement, sought: _Sought) -> Effect | None:
    seen = _ratio(found, sought.times)
    if seen is None:
        return None
    least, _ = _bounds(found, sought.times)
    is_there = least > sought.above
    text = sought.there if is_there else sought.absent
    return Effect(sought.name, sought.times, seen, is_there, _filled(text, found, sought, seen))


def _filled(text: str, found: Measurement, sought: _Sought, seen: Estimate) -> str:
    return text.format(seen.mean, *(_micro(found, name) for name in sought.times))


def _passthrough(found: Measurement, call: str) -> Effect | None:
    """Whether the kernel serves small calls on open files by itself, as in a plain directory."""
    times = (f"small_{call}", f"plain_{call}")
    seen = _ratio(found, times)
    if seen is None:
        return None
    here, there = (_micro(found, name) for name in times)
    beside = f"a {call} of 4 KiB on an open file takes {here}, {there} in a plain directory"
    least, most = _bounds(found, times)
    if most < _ASKED:
        meaning = "the kernel serves it by itself"
    elif least > _ASKED:
        meaning = "it asks a program or another host"
    else:
        meaning = "whether it asks a program cannot be told"
    name = f"kernel passthrough, {call}s"
    return Effect(name, times, seen, most < _ASKED, f"{beside}: {meaning}")


def _ratio(found: Measurement, times: tuple[str, str]) -> Estimate | None:
    if not all(one in found.means for one in times):
        return None
    return ratio(found.means[times[0]], found.means[times[1]])


def _bounds(found: Measurement, times: tuple[str, str]) -> tuple[float, float]:
    return ratio_bounds(found.means[times[0]], found.means[times[1]])


def _micro(found: Measurement, name: str) -> str:
    return f"{found.estimate(name).mean * 1e6:,.1f} µs"
