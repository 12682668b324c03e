"""Runs: how many segments in a row are stored, or found to be duplicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia.dedup.trace import Flags

LONG = 1000


@dataclass(frozen=True)
class Runs:
    """Lengths of runs, in segments."""

    count: int
    longest: int
    mean: float
    share_in_long: float
    """Of all segments, those in runs of more than 1000."""


@dataclass(frozen=True)
class RunProfile:
    """Runs of segments that go to the store, of duplicates, and of both."""

    content: Runs
    duplicate: Runs
    all: Runs


def run_lengths(is_stored: Flags) -> tuple[NDArray[np.int64], Flags]:
    """Return the length of each run, and whether its segments are stored."""
    if not len(is_stored):
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    starts = np.flatnonzero(np.diff(is_stored, prepend=~is_stored[:1]))
    lengths = np.diff(np.append(starts, len(is_stored)))
    return lengths, is_stored[starts]


def profile(is_stored: Flags) -> RunProfile:
    """Describe the runs of a sequence of decisions."""
    lengths, of_content = run_lengths(is_stored)
    return RunProfile(
        _describe(lengths[of_content]), _describe(lengths[~of_content]), _describe(lengths)
    )


def shuffled(is_stored: Flags, seed: int) -> Flags:
    """Return decisions with the same runs of each kind in another order, still alternating."""
    lengths, of_content = run_lengths(is_stored)
    generator = np.random.default_rng(seed)
    mixed = lengths.copy()
    for kind in (True, False):
        mixed[of_content == kind] = generator.permutation(lengths[of_content == kind])
    return np.repeat(of_content, mixed)


def _describe(lengths: NDArray[np.int64]) -> Runs:
    if not len(lengths):
        return Runs(0, 0, 0.0, 0.0)
    total = int(lengths.sum())
    return Runs(
        len(lengths),
        int(lengths.max()),
        total / len(lengths),
        float(lengths[lengths > LONG].sum()) / total,
    )
