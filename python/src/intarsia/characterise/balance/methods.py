"""The methods that the trial compares: by model, and by search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from intarsia.characterise import aggregate
from intarsia.characterise.aggregate import Rule
from intarsia.characterise.balance import search
from intarsia.characterise.balance.knowledge import Knowledge
from intarsia.characterise.balance.plan import Wishes, make_plan
from intarsia.characterise.balance.pool import Evaluator, Placement, Pool, Predictor
from intarsia.characterise.balance.predictor import ModelPredictor
from intarsia.characterise.load import Load, points_of
from intarsia.characterise.model import process, scalar
from intarsia.characterise.model.base import Model

LEAST_GAIN = 0.01
"""A move has to lower the objective by this share."""

Method = Callable[[Pool, int], list[Placement]]
"""From a pool and a seed to the placements on its way, the start first."""


def methods(knowledge: Knowledge) -> dict[str, Method]:
    """Return every method by its name."""
    names = knowledge.names
    constant = _predict_with([knowledge.pesto[name] for name in names], Rule.OUTSTANDING)
    basil = _predict_sum([knowledge.basil[name] for name in names])
    theirs = _predict_with([knowledge.published[name] for name in names], Rule.CORRECTED)
    ours = ModelPredictor([knowledge.ours[name] for name in names])
    return {
        "Basil": partial(_even_out, basil),
        "Pesto": partial(_even_out, constant),
        "random moves": _random_moves,
        "constant slope, greedy": partial(_greedy, constant),
        "constant slope, annealing": partial(_annealed, constant),
        "published model, greedy": partial(_greedy, theirs),
        "published model, annealing": partial(_annealed, theirs),
        "our model, greedy": partial(_greedy, ours),
        "our model, annealing": partial(_annealed, ours),
        "our plan, 80 % sure": partial(_planned, knowledge.ours, 0.8, 14),
        "our plan, 2 moves": partial(_planned, knowledge.ours, 0.8, 2),
        "published, 2 moves": lambda pool, seed: _annealed(theirs, pool, seed)[:3],
    }


def _predict_with(models: Sequence[Model], rule: Rule) -> Predictor:
    def predict(store: int, loads: Sequence[Load]) -> float:
        return max(aggregate.latency(models[store], loads, rule), 0.0)

    return predict


def _predict_sum(models: Sequence[scalar.BasilModel]) -> Predictor:
    """Return Basil's load of a store: the sum of its loads' weights."""

    def predict(store: int, loads: Sequence[Load]) -> float:
        return float(models[store].predict(points_of(loads)).sum()) if loads else 0.0

    return predict


def _even_out(predict: Predictor, pool: Pool, seed: int) -> list[Placement]:
    return search.greedy(pool, Evaluator(pool, predict).imbalance, least_gain=LEAST_GAIN)


def _greedy(predict: Predictor, pool: Pool, seed: int) -> list[Placement]:
    return search.greedy(pool, Evaluator(pool, predict).merit, least_gain=LEAST_GAIN)


def _annealed(predict: Predictor, pool: Pool, seed: int) -> list[Placement]:
    objective = Evaluator(pool, predict).merit
    return search.realise(pool, objective, search.anneal(pool, objective, seed=seed))


def _planned(
    models: Mapping[str, process.StoreModel], confidence: float, most: int, pool: Pool, seed: int
) -> list[Placement]:
    wishes = Wishes(most_moves=most, confidence=confidence)
    plan = make_plan(pool, models, wishes)
    way = [pool.placement]
    for move in plan.moves:
        number = next(n for n, one in enumerate(pool.loads) if one.name == move.name)
        here = list(way[-1])
        here[number] = pool.stores.index(move.target)
        way.append(tuple(here))
    return way


def _random_moves(pool: Pool, seed: int) -> list[Placement]:
    random = np.random.default_rng(seed)
    way = [pool.placement]
    for _ in range(3):
        choices = pool.moves(way[-1])
        number, store = choices[random.integers(len(choices))]
        here = list(way[-1])
        here[number] = store
        way.append(tuple(here))
    return way
