"""A plan: moves in order, each with what it gains, what it costs, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from intarsia.characterise.balance.move import Move, sentence_of
from intarsia.characterise.balance.pool import (
    ALPHA,
    Evaluator,
    Placement,
    Pool,
    merit,
    moved,
)
from intarsia.characterise.balance.predictor import ModelPredictor, together
from intarsia.characterise.balance.search import greedy
from intarsia.characterise.errors import CharacteriseError, OutsideError
from intarsia.characterise.load import Floats, Load, points_of
from intarsia.characterise.model.process import StoreModel
from intarsia.characterise.units import duration_text

_DRAWS = 2000
_SAME_STORE = 0.5
"""Correlation of a model's errors for two groups of loads on one store."""


@dataclass(frozen=True)
class Wishes:
    """What limits a plan."""

    most_moves: int = 5
    confidence: float = 0.8
    """A move is made only if it helps with this probability, at least."""
    bandwidth: float = 100e6
    """At which data move, in bytes a second."""
    horizon_s: float = 8 * 3600
    """A move has to pay back within this time."""
    least_gain: float = 0.01
    """A move has to lower the objective by this share."""
    alpha: float = ALPHA


@dataclass(frozen=True)
class Plan:
    """Moves in order, and the latencies before and after."""

    moves: tuple[Move, ...]
    before_ms: dict[str, float]
    after_ms: dict[str, float]
    merit_before_ms: float
    merit_after_ms: float
    declined: tuple[str, ...]
    """Moves that the model would have made, and why they are not in the plan."""
    placement: Placement


def make_plan(pool: Pool, models: Mapping[str, StoreModel], wishes: Wishes | None = None) -> Plan:
    """Return the moves that lower the objective, for stores with our models.

    Raises `OutsideError` when a load lies outside what a store was measured with, and
    `CharacteriseError` when a store has no model.
    """
    return _Planner(pool, _in_order(pool, models), wishes or Wishes()).plan()


def _in_order(pool: Pool, models: Mapping[str, StoreModel]) -> list[StoreModel]:
    missing = [name for name in pool.stores if name not in models]
    if missing:
        raise CharacteriseError(f"no model of {', '.join(missing)}: measure it and fit one")
    return [models[name] for name in pool.stores]


class _Planner:
    def __init__(self, pool: Pool, models: list[StoreModel], wishes: Wishes) -> None:
        self._pool = pool
        self._predictor = ModelPredictor(models)
        self._wishes = wishes
        self._evaluator = Evaluator(pool, self._predictor, wishes.alpha)
        self._declined: dict[tuple[int, int], str] = {}
        for store, model in enumerate(models):
            self._require_inside(store, model)

    def plan(self) -> Plan:
        """Make the plan."""
        here = self._pool.placement
        moves: list[Move] = []
        while len(moves) < self._wishes.most_moves:
            found = self._next(here)
            if found is None:
                break
            number, store = found
            there = moved(here, number, store)
            move = self._move(here, number, store)
            if (reason := self._objection(move)) is not None:
                self._declined[number, store] = reason
                continue
            moves.append(move)
            here = there
        return self._result(here, moves)

    def _require_inside(self, store: int, model: StoreModel) -> None:
        members = self._evaluator.members(self._pool.placement, store)
        loads = [self._pool.loads[number].load for number in sorted(members)]
        try:
            model.require_inside(points_of(together(loads)))
        except OutsideError as error:
            raise OutsideError(f"store {self._pool.stores[store]}: {error}") from None

    def _next(self, here: Placement) -> tuple[int, int] | None:
        """Return the best move that was not declined."""

        def objective(placement: Placement) -> float:
            is_declined = placement != here and _difference(here, placement) in self._declined
            return np.inf if is_declined else self._evaluator.merit(placement)

        start = Pool(
            self._pool.stores,
            self._pool.capacity_bytes,
            tuple(
                replace(one, store=store) for one, store in zip(self._pool.loads, here, strict=True)
            ),
        )
        way = greedy(start, objective, least_gain=self._wishes.least_gain, most_moves=1)
        return _difference(here, way[-1]) if len(way) > 1 else None

    def _move(self, here: Placement, number: int, store: int) -> Move:
        source = here[number]
        there = moved(here, number, store)
        before, after = self._evaluator.latencies(here), self._evaluator.latencies(there)
        alpha = self._wishes.alpha
        gain = merit(before, alpha) - merit(after, alpha)
        one = self._pool.loads[number]
        copy_s = one.size_bytes / self._wishes.bandwidth
        lost = max(self._during(here, source, store) - merit(before, alpha), 0.0)
        pays_back = copy_s + lost * copy_s / gain if gain > 0 else np.inf
        probability = self._probability(here, there, source, store)
        move = Move(
            one.name,
            self._pool.stores[source],
            self._pool.stores[store],
            float(before[source]),
            float(after[source]),
            float(before[store]),
            float(after[store]),
            probability,
            gain,
            copy_s,
            pays_back,
            "",
        )
        return replace(move, sentence=sentence_of(move, one.load, one.size_bytes))

    def _during(self, here: Placement, source: int, target: int) -> float:
        """Return the merit while a copy reads from one store and writes to another."""
        latencies = self._evaluator.latencies(here).copy()
        for store, read in ((source, 100.0), (target, 0.0)):
            members = self._evaluator.members(here, store)
            loads = [self._pool.loads[number].load for number in sorted(members)]
            predicted = self._predictor(store, [*loads, Load(0, read, 256 * 1024, 1)])
            if np.isfinite(predicted):
                latencies[store] = max(latencies[store], predicted)
        return merit(latencies, self._wishes.alpha)

    def _probability(self, here: Placement, there: Placement, source: int, target: int) -> float:
        """Return the probability that the merit falls, by draws from the models' errors."""
        random = np.random.default_rng(1)
        before = np.tile(self._evaluator.latencies(here), (_DRAWS, 1))
        after = np.tile(self._evaluator.latencies(there), (_DRAWS, 1))
        for store in (source, target):
            common, own = random.standard_normal(_DRAWS), random.standard_normal((2, _DRAWS))
            for drawn, placement, noise in ((before, here, own[0]), (after, there, own[1])):
                error = np.sqrt(_SAME_STORE) * common + np.sqrt(1 - _SAME_STORE) * noise
                drawn[:, store] *= np.exp(error * self._deviation(placement, store))
        alpha = self._wishes.alpha
        falls = [merit(b, alpha) > merit(a, alpha) for b, a in zip(before, after, strict=True)]
        return float(np.mean(falls))

    def _deviation(self, placement: Placement, store: int) -> float:
        members = self._evaluator.members(placement, store)
        loads = [self._pool.loads[number].load for number in sorted(members)]
        return self._predictor.logarithm(store, loads)[1]

    def _objection(self, move: Move) -> str | None:
        if move.probability < self._wishes.confidence:
            return (
                f"{move.name} from {move.source} to {move.target}: it helps with a probability of "
                f"{move.probability:.0%} only, and {self._wishes.confidence:.0%} are asked for"
            )
        if move.pays_back_s > self._wishes.horizon_s:
            return (
                f"{move.name} from {move.source} to {move.target}: it would pay back after "
                f"{duration_text(move.pays_back_s)}, later than "
                f"{duration_text(self._wishes.horizon_s)}"
            )
        return None

    def _result(self, here: Placement, moves: list[Move]) -> Plan:
        start = self._pool.placement
        return Plan(
            tuple(moves),
            self._named(self._evaluator.latencies(start)),
            self._named(self._evaluator.latencies(here)),
            self._evaluator.merit(start),
            self._evaluator.merit(here),
            tuple(self._declined.values()),
            here,
        )

    def _named(self, latencies: Floats) -> dict[str, float]:
        return dict(zip(self._pool.stores, (float(one) for one in latencies), strict=True))


def _difference(here: Placement, there: Placement) -> tuple[int, int]:
    number = next(n for n, store in enumerate(there) if store != here[n])
    return number, there[number]
