"""Searches for a placement: steepest descent, and annealing as published."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intarsia.characterise.balance.pool import Placement, Pool, moved

Objective = Callable[[Placement], float]

_COOLING = 1.2


def greedy(
    pool: Pool, objective: Objective, *, least_gain: float = 0.0, most_moves: int | None = None
) -> list[Placement]:
    """Take the best single move again and again; return all placements on the way, the start first.

    Ends when no move gains more than `least_gain`, a share of the objective, or after `most_moves`.
    """
    way = [pool.placement]
    value = objective(way[0])
    while most_moves is None or len(way) <= most_moves:
        here = way[-1]
        found = [
            (objective(there), there)
            for number, store in pool.moves(here)
            if (there := moved(here, number, store)) not in way
        ]
        best, there = min(found, default=(value, here))
        if best >= value * (1 - least_gain):
            return way
        way.append(there)
        value = best
    return way


def anneal(
    pool: Pool,
    objective: Objective,
    *,
    seed: int,
    steps: int = 200,
    temperature: float | None = None,
) -> Placement:
    """Return the best placement of simulated annealing with the published cooling by 1.2 a step.

    The first temperature, which is not published, is the objective of the start.
    """
    random = np.random.default_rng(seed)
    here, value = pool.placement, objective(pool.placement)
    best, least = here, value
    heat = value if temperature is None else temperature
    for _ in range(steps):
        heat /= _COOLING
        choices = pool.moves(here)
        if not choices:
            break
        number, store = choices[random.integers(len(choices))]
        there = moved(here, number, store)
        other = objective(there)
        if other < value or np.exp(min(0.0, (value - other) / max(heat, 1e-300))) > random.random():
            here, value = there, other
        if value < least:
            best, least = here, value
    return best


def realise(
    pool: Pool,
    objective: Objective,
    target: Placement,
    most_moves: int | None = None,
    *,
    printed: bool = False,
) -> list[Placement]:
    """Move towards a target, each time by the move that helps most; return all placements.

    Moves that are left when the budget is used up are not made. `printed` takes the move that helps
    least, as the head of the list that algorithm 3 sorts the wrong way.
    """
    way = [pool.placement]
    left = {n for n, store in enumerate(target) if store != pool.placement[n]}
    while left and (most_moves is None or len(way) <= most_moves):
        steps = [(objective(moved(way[-1], n, target[n])), n) for n in sorted(left)]
        fitting = [
            (value, number)
            for value, number in steps
            if (number, target[number]) in pool.moves(way[-1])
        ]
        if not fitting:
            break
        _, number = max(fitting) if printed else min(fitting)
        left.remove(number)
        way.append(moved(way[-1], number, target[number]))
    return way
