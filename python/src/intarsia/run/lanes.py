"""Attempts side by side, as a time line of each host shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from intarsia.run.attempts import Attempt


def first_free(spans: Iterable[tuple[float, float]], slack: float = 0.0) -> Iterator[int]:
    """Give each span, begin and end, the first lane in which nothing reaches into it.

    The spans come in the order of their begins. What ends at most `slack` later is no obstacle.

    >>> list(first_free([(0, 3), (1, 2), (2, 4), (3, 5)]))
    [0, 1, 1, 0]
    """
    free: list[float] = []
    for begin, end in spans:
        fitting = (number for number, until in enumerate(free) if until <= begin + slack)
        lane = next(fitting, len(free))
        free[lane : lane + 1] = [end]
        yield lane


def lanes_of(attempts: Iterable[Attempt]) -> dict[str, list[list[Attempt]]]:
    """Deal the attempts of each host to as few lanes as show no two above each other."""
    by_host: dict[str, list[Attempt]] = {}
    for one in sorted(attempts, key=lambda one: one.outcome.began_s):
        by_host.setdefault(one.host, []).append(one)
    return {host: _dealt(own) for host, own in sorted(by_host.items())}


def _dealt(attempts: list[Attempt]) -> list[list[Attempt]]:
    lanes: list[list[Attempt]] = []
    spans = ((one.outcome.began_s, one.outcome.ended_s) for one in attempts)
    for one, lane in zip(attempts, first_free(spans), strict=True):
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append(one)
    return lanes
