"""Attempts side by side, as a time line of each host shows them."""

from __future__ import annotations

from collections.abc import Iterable

from intarsia.run.attempts import Attempt


def lanes_of(attempts: Iterable[Attempt]) -> dict[str, list[list[Attempt]]]:
    """Deal the attempts of each host to as few lanes as show no two above each other."""
    lanes: dict[str, list[list[Attempt]]] = {}
    for one in sorted(attempts, key=lambda one: one.outcome.began_s):
        own = lanes.setdefault(one.host, [])
        free = [lane for lane in own if lane[-1].outcome.ended_s <= one.outcome.began_s]
        if free:
            free[0].append(one)
        else:
            own.append([one])
    return dict(sorted(lanes.items()))
