"""The trial of balancing: random placements, several methods, and a truth that none of them knows.

Every placement is scored by simulating its loads on its stores, with other random numbers than the
stores were measured with. No model scores its own choice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from intarsia.characterise import aggregate, design, published, stores
from intarsia.characterise.aggregate import Rule
from intarsia.characterise.balance import search
from intarsia.characterise.balance.plan import Wishes, make_plan, predictor
from intarsia.characterise.balance.pool import (
    Evaluator,
    PlacedLoad,
    Placement,
    Pool,
    Predictor,
)
from intarsia.characterise.load import Floats, Load, load_of, points_of
from intarsia.characterise.model import linear, process, scalar
from intarsia.characterise.model.base import Model, Samples

PUBLISHED_STORES = ("sata-raid0", "fc-raid5", "sata-raid5", "fc-raid6")
MIXED_STORES = ("sata-raid0", "fc-raid5", "sata-raid5", "ssd", "volume")

_SIZE_BYTES = 50e9
_CAPACITY_BYTES = 1e15
_LEAST_GAIN = 0.01

Say = Callable[[str], None]


@dataclass(frozen=True)
class Knowledge:
    """All that the methods know of the stores; none of it is the truth."""

    names: tuple[str, ...]
    samples: dict[str, Samples]
    ours: dict[str, process.StoreModel]
    published: dict[str, linear.LinearModel]
    pesto: dict[str, scalar.PestoModel]
    basil: dict[str, scalar.BasilModel]


@dataclass(frozen=True)
class Score:
    """Latencies of the loads and of the stores after a method, over all tests."""

    loads_ms: list[Floats] = field(default_factory=list)
    stores_ms: list[Floats] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)


def as_json(scores: Mapping[str, Score]) -> str:
    """Return scores as text that `from_json` reads."""
    return json.dumps(
        {
            name: {
                "loads_ms": [one.tolist() for one in score.loads_ms],
                "stores_ms": [one.tolist() for one in score.stores_ms],
                "moves": score.moves,
            }
            for name, score in scores.items()
        }
    )


def from_json(text: str) -> dict[str, Score]:
    """Return the scores of `as_json`; raises ValueError, KeyError or TypeError for other text."""
    return {
        name: Score(
            [np.array(one) for one in row["loads_ms"]],
            [np.array(one) for one in row["stores_ms"]],
            list(row["moves"]),
        )
        for name, row in json.loads(text).items()
    }


@dataclass(frozen=True)
class Reduction:
    """By how much a method lowered something, as a share, with a 95 % interval over tests."""

    value: float
    low: float
    high: float


def learn(
    names: Sequence[str], *, points: int = 400, mixes: int = 80, seed: int = 1, say: Say = print
) -> Knowledge:
    """Measure the stores and fit all models to the same samples."""
    samples = {name: measure_store(name, points, seed) for name in names}
    say(f"measured {points} loads on each of {len(names)} stores")
    ours = {}
    for name in names:
        model = process.fit(samples[name])
        ours[name] = calibrate(name, model, mixes, seed)
        say(f"fitted {name}, with {mixes} groups of loads measured together")
    return Knowledge(
        tuple(names),
        samples,
        ours,
        {name: linear.fit_published(one) for name, one in samples.items()},
        {name: scalar.fit_pesto(one) for name, one in samples.items()},
        scalar.fit_basil(samples),
    )


def measure_store(name: str, points: int, seed: int) -> Samples:
    """Measure loads over the region that balancing reaches."""
    rows = design.spread(points, design.BALANCING, seed)
    settings = stores.preset(name)
    found = stores.measure([(settings, [load_of(row)]) for row in rows], seed=seed)
    return Samples(rows, np.array([one.mean_ms for one in found]))


def random_mixes(count: int, seed: int) -> list[list[Load]]:
    """Return groups of 2 to 6 usual loads with 1 to 3 outstanding requests each."""
    random = np.random.default_rng(seed)
    return [random_loads(random, int(random.integers(2, 7))) for _ in range(count)]


def random_loads(random: np.random.Generator, count: int, deepest: int = 3) -> list[Load]:
    """Return usual loads with 1 to `deepest` outstanding requests, repetition allowed."""
    names = list(published.LOADS)
    return [
        published.load(names[random.integers(len(names))], float(random.integers(1, deepest + 1)))
        for _ in range(count)
    ]


def calibrate(name: str, model: process.StoreModel, mixes: int, seed: int) -> process.StoreModel:
    """Measure loads together on a store and correct its model by them."""
    groups = random_mixes(mixes, seed + 100)
    found = stores.measure([(stores.preset(name), mix) for mix in groups], seed=seed + 1)
    return aggregate.calibrated(model, groups, np.array([one.mean_ms for one in found]))


def random_pool(names: Sequence[str], seed: int, deepest: int = 3) -> Pool:
    """Return 8 to 14 usual loads, each on a random store."""
    random = np.random.default_rng(seed)
    count = int(random.integers(8, 15))
    loads = random_loads(random, count, deepest)
    placed = tuple(
        PlacedLoad(f"load-{number + 1}", load, _SIZE_BYTES, int(random.integers(len(names))))
        for number, load in enumerate(loads)
    )
    return Pool(tuple(names), (_CAPACITY_BYTES,) * len(names), placed)


Method = Callable[[Pool, int], list[Placement]]
"""From a pool and a seed to the placements on its way, the start first."""


def methods(knowledge: Knowledge) -> dict[str, Method]:
    """Return every method by its name."""
    names = knowledge.names
    constant = _predict_with([knowledge.pesto[name] for name in names], Rule.OUTSTANDING)
    basil = _predict_sum([knowledge.basil[name] for name in names])
    theirs = _predict_with([knowledge.published[name] for name in names], Rule.CORRECTED)
    ours = predictor([knowledge.ours[name] for name in names])
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


def run(
    knowledge: Knowledge,
    *,
    tests: int = 50,
    seed: int = 1,
    deepest: int = 3,
    with_oracle: bool = False,
    say: Say = print,
) -> dict[str, Score]:
    """Let every method balance every test and score what it did on the truth."""
    pools = [random_pool(knowledge.names, 1000 * seed + test, deepest) for test in range(tests)]
    ways: dict[str, list[list[Placement]]] = {"start": [[pool.placement] for pool in pools]}
    for name, method in methods(knowledge).items():
        ways[name] = [method(pool, seed + number) for number, pool in enumerate(pools)]
        say(f"{name}: {np.mean([len(way) - 1 for way in ways[name]]):.2g} moves a test")
    truth = _Truth(knowledge.names, seed=seed + 7_919)
    if with_oracle:
        oracle = _Truth(knowledge.names, seed=seed + 104_729)
        ways["descent on the truth"] = []
        for number, pool in enumerate(pools):
            ways["descent on the truth"].append(_oracle(oracle, pool))
            say(f"descent on the truth: test {number + 1} of {tests}")
    return {name: truth.score(pools, found) for name, found in ways.items()}


def reductions(
    scores: Mapping[str, Score], name: str, what: str = "loads_ms", resamples: int = 2000
) -> dict[str, Reduction]:
    """Return by how much a method lowered mean, variance and maximum, against the start.

    Sums over tests are compared, so that a test of slow loads counts for what it is.
    """
    before, after = (getattr(scores[one], what) for one in ("start", name))
    draws = np.random.default_rng(3).integers(len(before), size=(resamples, len(before)))
    found = {}
    for label, measure in (("mean", np.mean), ("variance", np.var), ("maximum", np.max)):
        start = np.array([measure(one) for one in before])
        end = np.array([measure(one) for one in after])
        drawn = 1 - end[draws].sum(1) / start[draws].sum(1)
        low, high = np.quantile(drawn, (0.025, 0.975))
        found[label] = Reduction(float(1 - end.sum() / start.sum()), float(low), float(high))
    return found


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
    return search.greedy(pool, Evaluator(pool, predict).imbalance, least_gain=_LEAST_GAIN)


def _greedy(predict: Predictor, pool: Pool, seed: int) -> list[Placement]:
    return search.greedy(pool, Evaluator(pool, predict).merit, least_gain=_LEAST_GAIN)


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


class _Truth:
    """Simulated stores, asked for groups of loads; each group is simulated once."""

    def __init__(self, names: Sequence[str], seed: int) -> None:
        self._settings = [stores.preset(name) for name in names]
        self._seed = seed
        self._known: dict[tuple[int, tuple[Load, ...]], stores.Measured] = {}

    def ask(self, groups: Iterable[tuple[int, tuple[Load, ...]]]) -> None:
        """Simulate what is not known yet."""
        new = [group for group in dict.fromkeys(groups) if group not in self._known]
        found = stores.measure([(self._settings[s], loads) for s, loads in new], seed=self._seed)
        self._known.update(zip(new, found, strict=True))

    def get(self, store: int, loads: tuple[Load, ...]) -> stores.Measured:
        """Return what these loads see together."""
        self.ask([(store, loads)])
        return self._known[store, loads]

    def score(self, pools: Sequence[Pool], ways: Sequence[list[Placement]]) -> Score:
        """Return what the loads see where each way ends."""
        score = Score()
        ends = [(pool, way[-1]) for pool, way in zip(pools, ways, strict=True)]
        self.ask(
            (store, loads)
            for pool, end in ends
            for store, loads in enumerate(groups(pool, end))
            if loads
        )
        for (pool, end), way in zip(ends, ways, strict=True):
            found = [
                self._known[store, loads] if loads else None
                for store, loads in enumerate(groups(pool, end))
            ]
            score.loads_ms.append(
                np.array([stream.mean_ms for one in found if one for stream in one.streams])
            )
            score.stores_ms.append(np.array([one.mean_ms if one else 0.0 for one in found]))
            score.moves.append(sum(a != b for a, b in zip(end, way[0], strict=True)))
        return score


def groups(pool: Pool, placement: Placement) -> list[tuple[Load, ...]]:
    """Return the loads of each store."""
    return [
        tuple(one.load for one, where in zip(pool.loads, placement, strict=True) if where == store)
        for store in range(len(pool.stores))
    ]


def _oracle(truth: _Truth, pool: Pool) -> list[Placement]:
    """Descend on the simulated truth itself: about what a perfect model could reach."""

    def predict(store: int, loads: Sequence[Load]) -> float:
        return truth.get(store, tuple(loads)).mean_ms if loads else 0.0

    return search.greedy(pool, Evaluator(pool, predict).merit, least_gain=_LEAST_GAIN)
