"""A store with deduplication as three queues: chunker, dictionary, content store.

Segments arrive from the network, are looked up, and the new ones are written. Duplicates leave
after the dictionary: the chance that a segment goes on to the store is the ratio scr. (The text
that this follows says once that the chance of a hit is the ratio; `hit_is_ratio` repeats that.)
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from intarsia.dedup.dictionary import Lookups
from intarsia.dedup.errors import DedupError
from intarsia.dedup.runs import shuffled
from intarsia.dedup.trace import Flags, Sizes

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Machine:
    """Rates in bytes a second, times in seconds. The rates are the published ones."""

    network: float = 100e6
    store: float = 50e6
    memory_lookup: float = 80e-6
    """A segment in the dictionary, checks in memory only. With the published totals
    1 / T = 1 / network + lookup / size + ratio / store: fitted to them, 6.3 ms a MB."""
    index_lookup: float = 2e-3
    """Assumed: a look into the index on disk, more."""
    exponential: bool = True
    """Whether service times are exponential, as published, or follow the sizes alone."""


class Mode(StrEnum):
    """Which segments go to the store."""

    TRACE = "trace"
    """As the dictionary decided, in order."""
    SHUFFLED = "shuffled"
    """The same runs in another order."""
    RANDOM = "rand"
    """As many, each independently: the shortest queue."""
    ALL = "all_miss"
    """Every segment: the longest queue."""


@dataclass(frozen=True)
class Flow:
    """What came of one backup."""

    mode: Mode
    throughput: float
    """Logical bytes a second."""
    mean_queue: float
    """Segments at the store, waiting or in service, over time."""
    p99_queue: float
    """99th percentile of those met by a segment that arrives."""
    store_busy: float
    """Share of the time in which the store works."""


def decisions(is_stored: Flags, mode: Mode, seed: int, hit_is_ratio: bool = False) -> Flags:
    """Return which segments go to the store in a mode."""
    share = float(is_stored.mean())
    if mode is Mode.ALL:
        return np.ones(len(is_stored), np.bool_)
    if mode is Mode.RANDOM:
        chance = 1 - share if hit_is_ratio else share
        return np.random.default_rng(seed).random(len(is_stored)) < chance
    return shuffled(is_stored, seed) if mode is Mode.SHUFFLED else is_stored


def simulate(
    sizes: Sizes,
    lookups: Lookups,
    machine: Machine | None = None,
    *,
    mode: Mode = Mode.TRACE,
    load: float = 1.0,
    seed: int = 1,
    hit_is_ratio: bool = False,
) -> Flow:
    """Let a backup flow through queues without bounds; `load` scales the arrivals.

    Exact for first come, first served: each departure is max(arrival, last departure) + service,
    which is a running maximum.
    """
    machine = machine or Machine()
    if load <= 0:
        raise DedupError(f"a load of {load}: give a share above 0")
    times = _services(sizes, lookups, machine, seed)
    arrivals = np.cumsum(times.network / load)
    looked_up = _depart(arrivals, times.dictionary)
    to_store = decisions(lookups.is_stored, mode, seed, hit_is_ratio)
    arrive, service = looked_up[to_store], times.store[to_store]
    leave = _depart(arrive, service)
    if not len(arrive):
        return Flow(mode, float(sizes.sum() / looked_up[-1]), 0.0, 0.0, 0.0)
    end = max(float(leave[-1]), float(looked_up[-1]))
    met = np.arange(len(arrive)) - np.searchsorted(leave, arrive, side="right")
    return Flow(
        mode,
        float(sizes.sum()) / end,
        float((leave - arrive).sum()) / end,
        float(np.quantile(met, 0.99)),
        float(service.sum()) / end,
    )


def bounded(
    sizes: Sizes,
    lookups: Lookups,
    machine: Machine | None = None,
    *,
    buffer: int,
    seed: int = 1,
) -> float:
    """Return the logical throughput, bytes a second, with room between stages.

    A stage waits if `buffer` segments stand before the next one. 0 lets one segment through at a
    time, as a program does that backs up without threads.
    """
    machine = machine or Machine()
    times = _services(sizes, lookups, machine, seed)
    if buffer == 0:
        written = float(times.store[lookups.is_stored].sum())
        total = float(times.network.sum() + times.dictionary.sum()) + written
        return float(sizes.sum()) / total
    to_dictionary: deque[float] = deque([0.0] * buffer, maxlen=buffer)
    to_store: deque[float] = deque([0.0] * buffer, maxlen=buffer)
    first = second = third = 0.0
    rows = zip(
        times.network.tolist(),
        times.dictionary.tolist(),
        times.store.tolist(),
        lookups.is_stored.tolist(),
        strict=True,
    )
    for network, look, write, is_stored in rows:
        first = max(first + network, to_dictionary[0])
        done = max(first, second) + look
        second = max(done, to_store[0]) if is_stored else done
        to_dictionary.append(second)
        if is_stored:
            third = max(second, third) + write
            to_store.append(third)
    return float(sizes.sum()) / max(second, third)


@dataclass(frozen=True)
class _Services:
    """Times of service of each segment, seconds."""

    network: Times
    dictionary: Times
    store: Times


def _services(sizes: Sizes, lookups: Lookups, machine: Machine, seed: int) -> _Services:
    generator = np.random.default_rng(seed)

    def drawn(mean: Times) -> Times:
        return mean * generator.exponential(size=len(mean)) if machine.exponential else mean

    look = machine.memory_lookup + np.where(lookups.in_index, machine.index_lookup, 0.0)
    return _Services(drawn(sizes / machine.network), drawn(look), drawn(sizes / machine.store))


def _depart(arrivals: Times, service: Times) -> Times:
    """Return when each leaves a queue with one server, first come, first served."""
    worked = np.cumsum(service)
    return np.asarray(worked + np.maximum.accumulate(arrivals - (worked - service)), np.float64)
