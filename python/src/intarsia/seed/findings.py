"""What times tell of calls of any size, of several processes at once, and of another host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intarsia.seed.probe import MIB
from intarsia.seed.rounds import Measurement
from intarsia.seed.statistics import ratio

_SMALL = 4096
_MIDDLE = 65536


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


def line(found: Measurement, kind: str) -> Line:
    """Fit the calls of a kind."""
    small, large = (found.estimate(f"{kind}_{size}").mean for size in (_SMALL, MIB))
    middle = found.estimate(f"{kind}_{_MIDDLE}").mean
    slope = max((large - small) / (MIB - _SMALL), large / MIB / 10)
    request_s = max(0.0, large - slope * MIB)
    made = Line(request_s, 1 / slope, 0.0)
    return Line(request_s, 1 / slope, made.seconds(_MIDDLE) / middle - 1 if middle > 0 else 0.0)


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
