"""Where a store puts new files by itself, found from how long both hosts take to read and write.

A small file takes about the time of a link or much less, so that each call tells whether the file
lies on the host that asks. Five kinds of calls tell four kinds of stores apart.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from intarsia.seed.probe import MIB
from intarsia.seed.rounds import Measurement

#: What is written or read here, and what another host does; by `probe.offer`, `far` and `back`.
_OWN_READ, _FAR_READ = "placed_read", "placed_far"
_FAR_WRITE, _BACK_READ = "placed_far_write", "placed_back"
#: A link is seen where it makes calls so many times as long; less is anything.
_LINK = 3.0
#: Of calls of one kind that many must be alike.
_MOST = 0.9
#: Times of calls that do not cross a link where a file lies on the own host.
_NEAR = (
    *(f"{kind}_{size}" for kind in ("write", "cold", "first") for size in (4096, MIB)),
    "close_mib",
)
_FAR = (f"far_{MIB}", _FAR_READ)
#: How long a call waits for a link that is full.
_FULL = "busy_wait"


def placement(found: Measurement) -> str:
    """Return local, spread or central; local where no other host was measured.

    Of a store whose only server is on neither host all calls cross links, as of one that spreads
    its files over very many.
    """
    kinds = (_OWN_READ, _FAR_READ, _FAR_WRITE, _BACK_READ)
    if not all(kind in found.times for kind in kinds):
        return "local"
    border = border_s([one for kind in kinds for one in found.times[kind]])
    if border is None:
        return "spread" if _is_alike(found) else "local"
    own, far, far_write, back = (near_share(found.times[kind], border) for kind in kinds)
    if own >= _MOST and far <= 1 - _MOST:
        # What another host writes lies there, or here with all else.
        return "central" if back >= _MOST and far_write <= 1 - _MOST else "local"
    if own <= 1 - _MOST and (far >= _MOST or far <= 1 - _MOST):
        return "central"
    return "spread"


def _is_alike(found: Measurement) -> bool:
    """Whether a link is seen, but not who wrote a file: several hosts have copies."""
    own, far = (statistics.mean(found.times[kind]) for kind in (_OWN_READ, _FAR_READ))
    if f"far_{MIB}" not in found.means:
        return False
    far_s, warm_s = (statistics.median(found.means[f"{kind}_{MIB}"]) for kind in ("far", "warm"))
    return own > far / _LINK and far_s > _LINK**2 * warm_s


def border_s(times: Sequence[float], spare: int = 1) -> float | None:
    """Return the seconds that part two kinds of times, or None if there is but one kind.

    The border is the middle (geometric) of the widest gap, which must be a factor of `_LINK`. Of
    each kind there must be more than `spare`: a single one is an accident.
    """
    ordered = sorted(times)
    gaps = [(b / a, math.sqrt(a * b)) for a, b in pairwise(ordered) if a > 0]
    widest = max(gaps[spare : len(gaps) - spare], default=None)
    return widest[1] if widest is not None and widest[0] > _LINK else None


def near_share(times: Sequence[float], border: float) -> float:
    """Return the share of the times below a border."""
    return sum(one < border for one in times) / len(times)


def by_mode(found: Measurement) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Return the typical mean of each time, and the means of each round, of files of the own host.

    Where files are spread, a round has a file here or elsewhere by chance. What reads and writes
    take is that of rounds that had it here, a link's is that of rounds that had it elsewhere; all
    others have the typical one in its place.
    """
    typical = {name: found.typical(name) for name in found.means}
    rounds = [
        {name: means[number] for name, means in found.means.items() if number < len(means)}
        for number in range(found.rounds)
    ]
    if _FULL in found.means:
        # A stream that has just begun, or whose connection was idle, keeps less in the queue of a
        # link than it may: the longest wait is that of a full queue, in all rounds.
        typical[_FULL] = max(found.means[_FULL])
        rounds = [one | {_FULL: typical[_FULL]} for one in rounds]
    if placement(found) == "local":
        # In the median: a round in which something was asked for twice tells nothing of a link.
        steady = [name for name in _FAR if name in typical]
        typical |= {name: statistics.median(found.means[name]) for name in steady}
        return typical, rounds
    for name in (*_NEAR, *_FAR):
        means = found.means.get(name)
        border = None if means is None else border_s(means, spare=0)
        if means is None or border is None:
            typical |= {name: statistics.median(means)} if means else {}
            continue
        kept = [one for one in means if (one < border) == (name in _NEAR)]
        typical[name] = statistics.median(kept)
        for one in rounds:
            if (one[name] < border) != (name in _NEAR):
                one[name] = typical[name]
    return _without_link(typical), [_without_link(one) for one in rounds]


def _without_link(times: dict[str, float]) -> dict[str, float]:
    """Return the times less what the link takes of them, where no file lay here."""
    link_s = times[f"far_{MIB}"]
    made = dict(times)
    for kind in ("write", "cold"):
        name = f"{kind}_{MIB}"
        if made[name] > link_s / 2:
            made[name] = max(made[name] - link_s, times[f"warm_{MIB}"])
    return made
