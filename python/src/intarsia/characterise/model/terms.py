"""Terms of the published model: products of a load's four numbers, and which of them matter."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy import stats

from intarsia.characterise.load import Floats, Points

LETTERS = "XRZO"
"""Random %, read %, bytes, outstanding: the columns of `Points`."""

ALL = tuple("".join(letters) for size in (1, 2, 3, 4) for letters in combinations(LETTERS, size))
"""All 15 products, in the order of a factorial analysis of variance."""


def columns(points: Points, terms: tuple[str, ...]) -> Floats:
    """Return the value of each term (column) for each load (row)."""
    made = [points[:, [LETTERS.index(letter) for letter in term]].prod(axis=1) for term in terms]
    return np.column_stack(made)


def p_values(points: Points, latency_ms: Floats) -> dict[str, float]:
    """Return the p-value of each of the 15 products in a sequential (type I) analysis of variance.

    That is what `aov(P ~ X*R*Z*O)` of R prints, the likely origin of the published selection.
    """
    raw = columns(points, ALL)
    design = np.column_stack([np.ones(len(raw)), raw / np.abs(raw).max(axis=0)])
    orthogonal, triangular = np.linalg.qr(design)
    effects = orthogonal.T @ latency_ms
    freedom = len(raw) - design.shape[1]
    residual = float(latency_ms @ latency_ms - effects @ effects)
    variance = max(residual, 0.0) / freedom
    is_estimable = np.abs(np.diag(triangular)) > 1e-10
    ratio = np.where(is_estimable, effects**2, 0.0) / max(variance, 1e-300)
    chance = stats.f.sf(ratio[1:], 1, freedom)
    return dict(zip(ALL, (float(one) for one in chance), strict=True))


def select(points: Points, latency_ms: Floats, level: float = 0.05) -> tuple[str, ...]:
    """Return the terms with p below `level` that contain the outstanding requests.

    `O` itself is always kept: it is the latency of the fastest load.
    """
    found = p_values(points, latency_ms)
    return tuple(term for term in ALL if "O" in term and (found[term] < level or term == "O"))
