"""What the methods of the trial know of the stores: samples, and models fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from intarsia.characterise import aggregate, design, stores
from intarsia.characterise.balance.draws import random_mixes
from intarsia.characterise.load import load_of
from intarsia.characterise.model import linear, process, scalar
from intarsia.characterise.model.base import Samples

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


def measure_store(name: str, points: int, seed: int, requests: int = 800) -> Samples:
    """Measure loads over the region that balancing reaches, each by so many requests."""
    rows = design.spread(points, design.BALANCING, seed)
    settings = stores.preset(name)
    cases = [(settings, [load_of(row)]) for row in rows]
    found = stores.measure(cases, seed=seed, requests=requests)
    return Samples(rows, np.array([one.mean_ms for one in found]))


def calibrate(name: str, model: process.StoreModel, mixes: int, seed: int) -> process.StoreModel:
    """Measure loads together on a store and correct its model by them."""
    groups = random_mixes(mixes, seed + 100)
    found = stores.measure([(stores.preset(name), mix) for mix in groups], seed=seed + 1)
    return aggregate.calibrated(model, groups, np.array([one.mean_ms for one in found]))
