"""What the times of a measurement tell of a store: found, not told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intarsia.seed.probe import MIB
from intarsia.seed.rounds import Measurement
from intarsia.seed.statistics import Estimate, ratio

_SMALL = 4096
_MIDDLE = 65536
#: Above such a ratio an effect is worth a word, and changes the profile.
_CACHE, _READ_AHEAD, _FIRST_TOUCH, _BUFFERED, _REMOVED = 1.2, 1.5, 1.1, 0.5, 1.5
BURST = 2.0


@dataclass(frozen=True, slots=True)
class Line:
    """What a call of any size takes: `request_s` and a rate. `misfit` is how far the middle is off.

    The line goes through the means of calls of 4 KiB and 1 MiB; the misfit is that at 64 KiB, as a
    share of what was measured there.
    """

    request_s: float
    bytes_per_s: float
    misfit: float

    def seconds(self, size: float) -> float:
        """What a call of so many bytes takes."""
        return self.request_s + size / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class Effect:
    """A peculiarity that was looked for: a ratio of two times, and whether it is there."""

    name: str
    ratio: Estimate
    is_there: bool
    text: str


def line(found: Measurement, kind: str) -> Line:
    """Fit the calls of a kind."""
    small, large = (found.estimate(f"{kind}_{size}").mean for size in (_SMALL, MIB))
    middle = found.estimate(f"{kind}_{_MIDDLE}").mean
    slope = max((large - small) / (MIB - _SMALL), large / MIB / 10)
    request_s = max(0.0, large - slope * MIB)
    made = Line(request_s, 1 / slope, 0.0)
    return Line(request_s, 1 / slope, made.seconds(_MIDDLE) / middle - 1 if middle > 0 else 0.0)


def effects(found: Measurement) -> list[Effect]:
    """Look for what memory, reading ahead, bursts, first touch, buffering, removals do to times."""
    made = [
        _effect(
            found,
            "page cache",
            (f"cold_{MIB}", f"warm_{MIB}"),
            _CACHE,
            "what was read or written is kept in memory: the first read takes {:.2f} times as long",
            "reads take as long again: no memory is seen beside the store",
        ),
        _effect(
            found,
            "page cache of other hosts",
            (f"far_{MIB}", f"again_{MIB}"),
            _CACHE,
            "what another host has read is kept there: the first read takes {:.2f} times as long",
            "another host that reads again asks again",
        ),
        _effect(
            found,
            "read-ahead",
            (f"anywhere_{_MIDDLE}", f"cold_{_MIDDLE}"),
            _READ_AHEAD,
            "reading on is foreseen: 64 KiB anywhere take {:.2f} times as long",
            "reading on is not foreseen, or costs nothing",
        ),
        _effect(
            found,
            "burst",
            ("late_mib", "early_mib"),
            BURST,
            "the device slows down after a burst: what is read later takes {:.2f} times as long",
            "reading is as fast later as at first",
        ),
        _effect(
            found,
            "first touch",
            (f"write_{MIB}", f"over_{MIB}"),
            _FIRST_TOUCH,
            "new bytes take {:.2f} times as long as writing over old ones",
            "new bytes cost no more than writing over old ones",
        ),
        _effect(
            found,
            "buffered writes",
            ("fsync_mib", f"write_{MIB}"),
            _BUFFERED,
            "a write returns before its bytes are safe: fsync takes {:.2f} times as long again",
            "fsync adds little: a write is safe when it returns, or nothing makes it safe",
        ),
        _effect(
            found,
            "removed names",
            ("create_after", "create"),
            _REMOVED,
            "making a file soon after many were removed takes {:.2f} times as long",
            "making a file takes no longer after many were removed",
        ),
    ]
    return [one for one in made if one is not None]


def _effect(
    found: Measurement,
    name: str,
    times: tuple[str, str],
    above: float,
    there: str,
    absent: str,
) -> Effect | None:
    if not all(one in found.means for one in times):
        return None
    seen = ratio(found.means[times[0]], found.means[times[1]])
    is_there = seen.mean - min(seen.half_width, seen.mean) > above
    return Effect(name, seen, is_there, there.format(seen.mean) if is_there else absent)


def gain(means: Mapping[str, float], kind: str, slots: int) -> float | None:
    """How much more of a kind of work `slots` processes get done than one; None if not measured.

    Between a tenth of one (they hinder each other) and `slots`: more is noise.
    """
    one, all_of_them = means.get(f"{kind}_by_1"), means.get(f"{kind}_by_{slots}")
    if slots < 2 or not one or not all_of_them:
        return None
    return min(float(slots), max(0.1, one / all_of_them))


def local_share(found: Measurement) -> float | None:
    """How much slower another host reads than this one does warm; None without another host."""
    if f"far_{MIB}" not in found.means:
        return None
    return ratio(found.means[f"far_{MIB}"], found.means[f"warm_{MIB}"]).mean
