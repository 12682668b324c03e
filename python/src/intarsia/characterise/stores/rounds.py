"""Rounds of measurements of a real store: what goes wrong for a while spoils one round, not a load.

A machine that is shared stalls now and then for seconds, and what is measured meanwhile is not the
store. So every load is measured once in each round, rounds have their own random order, and the
median over rounds counts, as one spoilt round of three does not move it far.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Floats

Measure = Callable[[int], float]
"""From the number of a load (or of a group) to its latency in ms."""


def measure_rounds(
    count: int,
    rounds: int,
    seed: int,
    kept: Kept,
    measure: Measure,
    step: Callable[[], None],
) -> Floats:
    """Measure what `kept` lacks; return latencies in ms, a row for each round."""
    found = np.empty((rounds, count))
    for turn in range(rounds):
        for number in (int(one) for one in np.random.default_rng([seed, turn]).permutation(count)):
            place = turn * count + number
            if place not in kept.latency_ms:
                kept.add(place, measure(number))
            found[turn, number] = kept.latency_ms[place]
            step()
    return found


def spread_of(found: Floats) -> Floats:
    """Return for each load the largest latency of a round over its median, less one."""
    return np.asarray(found.max(axis=0) / np.median(found, axis=0) - 1, dtype=np.float64)


class Kept:
    """What was measured so far, in a file beside the samples."""

    def __init__(self, path: Path, plan: Any) -> None:
        self._path = path
        self.latency_ms: dict[int, float] = {}
        first = json.dumps(plan)
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and lines[0] != first:
            raise CharacteriseError(
                f"{path} is of another measurement: choose another --out, or delete it"
            )
        for line in lines[1:]:
            try:
                place, latency = json.loads(line)
            except ValueError:
                continue  # Cut off when the command was killed; it is measured again.
            self.latency_ms[int(place)] = float(latency)
        text = [first, *(json.dumps(one) for one in self.latency_ms.items())]
        path.write_text("\n".join(text) + "\n")

    def add(self, place: int, latency_ms: float) -> None:
        """Keep one more."""
        self.latency_ms[place] = latency_ms
        with open(self._path, "a") as file:
            file.write(json.dumps([place, latency_ms]) + "\n")


@contextmanager
def kept_beside(out: Path, plan: Sequence[Any]) -> Iterator[Kept]:
    """Keep measurements beside `out` until all are done.

    Raises `CharacteriseError` when there are some of another plan.
    """
    path = out.with_name(out.name + ".part")
    yield Kept(path, plan)
    path.unlink()
