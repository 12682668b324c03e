"""The coarse shape of a store's latency: times that a request takes from the store add up.

In a closed loop the latency for each outstanding request is the time that an average request keeps
the store busy, once it is busy, and before that its time over the outstanding requests (the
asymptotic bounds of queueing networks, Denning and Buzen 1978). What serves k requests at the same
time, such as the disks of an array or a limit on requests under way, is busy from k outstanding
ones on. All are sums over reads and writes, of a time for each request, for each byte and for each
page, larger for random requests. No time is negative, so the sum is found by non-negative least
squares on relative errors.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from intarsia.characterise.load import BYTES, OUTSTANDING, RANDOM, READ, Floats, Points
from intarsia.characterise.model.base import Samples

_PAGE_BYTES = 4096
"""What flash and file systems read and write at least."""
_ROUNDS = 8
_LARGE_BYTES = 65536
_AT_ONCE = (1, 2, 4, 8, 16, np.inf)
"""How many requests a part of a store may serve at the same time."""


def pages_over_bytes(points: Points) -> Floats:
    """Return the bytes of the pages that a request touches, over its own.

    Requests lie at multiples of their size, so one of 4 KiB touches one page, and one of 5 KiB two
    on average.

    >>> pages_over_bytes(np.array([[0, 100, 4096, 1], [0, 100, 5120, 1]]))
    array([1. , 1.6])
    """
    size = np.maximum(np.round(points[:, BYTES]).astype(int), 1)
    return np.asarray((size + _PAGE_BYTES - np.gcd(size, _PAGE_BYTES)) / size, dtype=np.float64)


def fit(samples: Samples) -> Floats:
    """Return the times that explain the latencies best, in ms; none is negative."""
    slope = samples.latency_ms / samples.points[:, OUTSTANDING]
    design = _design(samples.points)
    weight = 1 / slope
    for _ in range(_ROUNDS):
        times, _ = nnls(design * weight[:, None], slope * weight)
        # Of a quotient q, log q is about (q - 1) / sqrt(q): errors count alike in both directions.
        weight = 1 / np.sqrt(slope * np.maximum(design @ times, 1e-9 * slope.max()))
    return np.asarray(times, dtype=np.float64)


def logarithm(times: Floats, points: Points) -> Floats:
    """Return the logarithm of the latency for each outstanding request, in ms."""
    return np.asarray(np.log(np.maximum(_design(points) @ times, 1e-9)), dtype=np.float64)


def _design(points: Points) -> Floats:
    read, random = points[:, READ] / 100, points[:, RANDOM] / 100
    one, size = np.ones(len(points)), points[:, BYTES] / _LARGE_BYTES
    columns = [
        side * amount * place * queued
        for side in (read, 1 - read)
        for amount in (one, size, size * pages_over_bytes(points))
        for place in (one, random)
        for queued in (np.maximum(1 / k, 1 / points[:, OUTSTANDING]) for k in _AT_ONCE)
    ]
    return np.column_stack(columns)
