"""The truth of the trial: simulated stores, which no method knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from intarsia.characterise import stores
from intarsia.characterise.balance import search
from intarsia.characterise.balance.methods import LEAST_GAIN
from intarsia.characterise.balance.pool import ALPHA, Evaluator, Placement, Pool
from intarsia.characterise.balance.score import Score
from intarsia.characterise.load import Load


class Truth:
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


def descend(truth: Truth, pool: Pool, alpha: float = ALPHA) -> list[Placement]:
    """Descend on the simulated truth itself: about what a perfect model could reach.

    What falls is the norm of the stores' latencies that `alpha` names: 1 for their mean, a large
    one for their maximum.
    """

    def predict(store: int, loads: Sequence[Load]) -> float:
        return truth.get(store, tuple(loads)).mean_ms if loads else 0.0

    objective = Evaluator(pool, predict, alpha).merit
    return search.greedy(pool, objective, least_gain=LEAST_GAIN)
