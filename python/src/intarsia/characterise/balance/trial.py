"""The trial of balancing: random placements, several methods, and a truth that none of them knows.

Every placement is scored by simulating its loads on its stores, with other random numbers than the
stores were measured with. No model scores its own choice.
"""

from __future__ import annotations

import numpy as np

from intarsia.characterise.balance.draws import random_pool
from intarsia.characterise.balance.knowledge import Knowledge, Say
from intarsia.characterise.balance.methods import methods
from intarsia.characterise.balance.pool import ALPHA, Placement
from intarsia.characterise.balance.score import Score
from intarsia.characterise.balance.truth import Truth, descend

POOLS = {
    "published": ("sata-raid0", "fc-raid5", "sata-raid5", "fc-raid6"),
    "mixed": ("sata-raid0", "fc-raid5", "sata-raid5", "ssd", "volume"),
}
"""Simulated stores: of the published shapes, and further apart."""

ORACLES = {
    "descent on the truth": ALPHA,
    "descent on its mean": 1.0,
    "descent on its maximum": 64.0,
}
"""Descents that no model could follow, by the norm that falls: what can be reached at all."""


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
    truth = Truth(knowledge.names, seed=seed + 7_919)
    if with_oracle:
        oracle = Truth(knowledge.names, seed=seed + 104_729)
        for name, alpha in ORACLES.items():
            ways[name] = []
            for number, pool in enumerate(pools):
                ways[name].append(descend(oracle, pool, alpha))
                say(f"{name}: test {number + 1} of {tests}")
    return {name: truth.score(pools, found) for name, found in ways.items()}
