"""What benchmarks and sets of loads cover: independent components, clustered.

The published way: knobs and metrics of a benchmark, a row for each run, are taken apart into
independent components; how far each moves a metric is its place, and places of several benchmarks
are clustered. A cluster in which only one benchmark has a component is covered by that one alone.
FastICA stands for the published JADE.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import KMeans
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_score

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import BYTES, OUTSTANDING, RANDOM, READ, Floats, Numbers, Points

_DRAWS = 30
_STARTS = 10
_MOST_CLUSTERS = 8


@dataclass(frozen=True)
class Clusters:
    """Things of several sets, put into clusters."""

    places: Floats
    """A row for each thing."""
    sets: tuple[str, ...]
    """The set of each thing."""
    labels: Numbers
    """The cluster of each thing."""
    silhouette: float
    """How well the clusters are apart: -1 to 1; 0 when there is one."""

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return int(self.labels.max()) + 1

    def reached(self, name: str) -> set[int]:
        """Return the clusters in which a set has something."""
        of_set = [one == name for one in self.sets]
        return {int(label) for label in self.labels[of_set]}

    def alone(self, name: str) -> set[int]:
        """Return the clusters in which nobody else has anything."""
        others = {label for one in set(self.sets) - {name} for label in self.reached(one)}
        return self.reached(name) - others

    def share(self, name: str) -> float:
        """Return the share of the clusters that a set reaches."""
        return len(self.reached(name)) / self.count


@dataclass(frozen=True)
class Components:
    """Independent components of a benchmark, by how far each moves a metric."""

    loadings: Floats
    """Standard deviations of the metric for one of the component, without a sign."""
    stability: Floats
    """For each, how alike it is in bootstrap samples of the runs: 0 to 1."""


def components(runs: Floats, metric: int, count: int, seed: int = 1) -> Components:
    """Take a benchmark apart: `runs` has a row for each run and a column for each variable.

    Raises `CharacteriseError` when there are too few runs or variables for `count` components.
    """
    most = int(np.linalg.matrix_rank(_standard(runs)))
    if not 1 <= count <= most:
        raise CharacteriseError(f"{count} components; {len(runs)} runs give 1 to {most}")
    mixing = _mixing(runs, count, seed)
    random = np.random.default_rng(seed)
    alike = []
    for _ in range(_DRAWS):
        drawn = runs[random.integers(len(runs), size=len(runs))]
        if np.linalg.matrix_rank(_standard(drawn)) >= count:
            # A draw with fewer different runs has no such components.
            with contextlib.suppress(CharacteriseError):
                alike.append(_likeness(mixing, _mixing(drawn, count, seed)))
    stability = np.mean(alike, axis=0) if alike else np.zeros(count)
    return Components(np.abs(mixing[metric]), stability)


def _standard(runs: Floats) -> Floats:
    spread = runs.std(axis=0)
    return np.asarray((runs - runs.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _mixing(runs: Floats, count: int, seed: int) -> Floats:
    # Directions in which nothing varies divide by zero, and are then left out.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # A dozen runs need not have a clear answer; the stability tells.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for start in range(_STARTS):
            try:
                return _analysed(_standard(runs), count, seed + start)
            except (np.linalg.LinAlgError, ValueError):
                # From some starts the iteration runs into a direction of length zero.
                continue
    raise CharacteriseError(f"{count} components cannot be told apart: ask for fewer --components")


def _analysed(standard: Floats, count: int, seed: int) -> Floats:
    analysis = FastICA(count, whiten="unit-variance", random_state=seed, max_iter=500, tol=1e-3)
    mixing = np.asarray(analysis.fit(standard).mixing_, dtype=np.float64)
    if not np.isfinite(mixing).all():
        raise ValueError("not finite")
    return mixing


def _likeness(mixing: Floats, other: Floats) -> Floats:
    """Return for each component the largest cosine with one of the others."""
    one = mixing / np.linalg.norm(mixing, axis=0)
    two = other / np.maximum(np.linalg.norm(other, axis=0), 1e-12)
    return np.asarray(np.abs(one.T @ two).max(axis=1), dtype=np.float64)


def tree(places: Floats) -> Floats:
    """Return the dendrogram of places, by Ward's distance: what `scipy` draws."""
    return np.asarray(linkage(places, method="ward"), dtype=np.float64)


def clusters(sets: Mapping[str, Floats], seed: int = 1) -> Clusters:
    """Cluster the things of all sets; as many clusters as are apart best (silhouette)."""
    places = np.vstack(list(sets.values()))
    names = tuple(name for name, rows in sets.items() for _ in rows)
    best = Clusters(places, names, np.zeros(len(places), dtype=np.intp), 0.0)
    for count in range(2, min(_MOST_CLUSTERS, len(np.unique(places, axis=0)) - 1) + 1):
        labels = KMeans(count, n_init=10, random_state=seed).fit_predict(places)
        score = float(silhouette_score(places, labels))
        if score > best.silhouette:
            best = Clusters(places, names, np.asarray(labels, dtype=np.intp), score)
    return best


def independent_loads(sets: Mapping[str, Points], seed: int = 1) -> dict[str, Floats]:
    """Return loads in independent coordinates of unit variance, so that distances mean something.

    Raises `CharacteriseError` when there are too few to tell.
    """
    numbers = np.vstack([_numbers(points) for points in sets.values()])
    varies = numbers.std(axis=0) > 0
    if len(numbers) < 8 or not varies.any():
        raise CharacteriseError("coverage needs 8 loads at least, and some that differ")
    numbers = numbers[:, varies]
    rank = int(np.linalg.matrix_rank(numbers - numbers.mean(axis=0)))
    analysis = FastICA(rank, whiten="unit-variance", random_state=seed, max_iter=1000, tol=1e-3)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = analysis.fit_transform((numbers - numbers.mean(axis=0)) / numbers.std(axis=0))
    ends = np.cumsum([len(points) for points in sets.values()])[:-1]
    return dict(zip(sets, np.split(np.asarray(found), ends), strict=True))


def _numbers(points: Points) -> Floats:
    return np.column_stack(
        [
            points[:, RANDOM] / 100,
            points[:, READ] / 100,
            np.log2(points[:, BYTES]),
            np.log2(points[:, OUTSTANDING]),
        ]
    )
