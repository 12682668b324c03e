"""All models side by side on loads that none of them was fitted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from intarsia.characterise.model import boosting, linear, process, scalar
from intarsia.characterise.model.base import Model, Samples
from intarsia.characterise.published import BASIL_RECALLED

OURS = "ours"
BASELINES = ("Basil, as published", "Basil, fitted", "Pesto", "full factorial", "published model")
"""The published ways to predict; the others are for comparison."""


@dataclass(frozen=True)
class Errors:
    """How a model did on the left-out loads of one store."""

    mean_ms: float
    """Mean of the absolute errors."""
    largest_ms: float
    median_relative: float
    coverage_90: float
    """Share of the measurements inside its 90 % interval."""
    coverage_95: float
    width: float
    """Median width of the 90 % interval over the prediction."""


_FITS: dict[str, Callable[[Samples], Model]] = {
    "Pesto": scalar.fit_pesto,
    "full factorial": linear.fit_factorial,
    "published model": linear.fit_published,
    "published, true interval": lambda samples: linear.fit_published(samples, "prediction"),
    "published form, relative": linear.fit_weighted,
    "gradient boosting": boosting.fit_boosting,
    OURS: process.fit,
}


def fit_all(pool: Mapping[str, Samples]) -> dict[str, dict[str, Model]]:
    """Fit every model to every store: by model, then by store."""
    fitted: dict[str, dict[str, Model]] = {
        "Basil, as published": dict(scalar.fit_basil(pool, BASIL_RECALLED)),
        "Basil, fitted": dict(scalar.fit_basil(pool)),
    }
    for name, fit in _FITS.items():
        fitted[name] = {store: fit(samples) for store, samples in pool.items()}
    return fitted


def errors(model: Model, left_out: Samples) -> Errors:
    """Compare a model with measurements it has not seen."""
    measured = left_out.latency_ms
    difference = np.abs(model.predict(left_out.points) - measured)
    ninety = model.interval(left_out.points, 0.90)
    more = model.interval(left_out.points, 0.95)
    return Errors(
        float(difference.mean()),
        float(difference.max()),
        float(np.median(difference / measured)),
        float(ninety.covers(measured).mean()),
        float(more.covers(measured).mean()),
        float(np.median((ninety.high_ms - ninety.low_ms) / np.maximum(ninety.mean_ms, 1e-9))),
    )


def compare(
    pool: Mapping[str, Samples], left_out: Mapping[str, Samples]
) -> dict[str, dict[str, Errors]]:
    """Fit every model to `pool` and judge it on `left_out`: by model, then by store."""
    return {
        name: {store: errors(model, left_out[store]) for store, model in by_store.items()}
        for name, by_store in fit_all(pool).items()
    }


def pooled(by_store: Mapping[str, Errors]) -> Errors:
    """Return the mean over stores; of the largest errors the largest."""
    rows = list(by_store.values())

    def mean(of: Callable[[Errors], float]) -> float:
        return float(np.mean([of(row) for row in rows]))

    return Errors(
        mean(lambda row: row.mean_ms),
        max(row.largest_ms for row in rows),
        mean(lambda row: row.median_relative),
        mean(lambda row: row.coverage_90),
        mean(lambda row: row.coverage_95),
        mean(lambda row: row.width),
    )


def split(samples: Samples, share: float = 0.25, seed: int = 11) -> tuple[Samples, Samples]:
    """Deal measured loads into those to fit on and those to judge on."""
    order = np.random.default_rng(seed).permutation(len(samples))
    held = round(share * len(samples))
    return samples.part(order[held:]), samples.part(order[:held])
