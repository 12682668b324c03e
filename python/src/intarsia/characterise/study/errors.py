"""Errors and coverage of all models, from the raw predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from intarsia.characterise.model.evaluate import BASELINES, OURS
from intarsia.characterise.study.samples import LEVELS

THIRDS = ("fastest", "middle", "slowest")
MODELS = (*BASELINES, "published form, relative", "gradient boosting", OURS)


def by_store(predictions: pd.DataFrame, models: Sequence[str] = MODELS) -> pd.DataFrame:
    """Return the mean absolute error of each model in ms, a row for each store."""
    errors = _absolute(predictions, models).assign(store=predictions["store"])
    means = errors.groupby("store", sort=False).mean()
    best = means[list(BASELINES)].min(axis=1)
    return means.assign(**{"ours over the best published": means[OURS] / best})


def pooled(predictions: pd.DataFrame, models: Sequence[str] = MODELS) -> pd.DataFrame:
    """Return mean, largest and relative errors of each model over all stores."""
    errors = _absolute(predictions, models)
    relative = errors.div(predictions["measured_ms"], axis=0)
    mean = predictions["measured_ms"].mean()
    rows = [
        {
            "model": name,
            "mean error, ms": errors[name].mean(),
            "largest, ms": errors[name].max(),
            "of the mean latency": errors[name].mean() / mean,
            "median relative error": relative[name].median(),
            "within 10 ms": float((errors[name] <= 10).mean()),
        }
        for name in models
    ]
    return pd.DataFrame(rows)


def coverage(predictions: pd.DataFrame, model: str = OURS) -> pd.DataFrame:
    """Return how often intervals held the measurement, a row for each store and level.

    The 95 % interval of that share is over fits, each of which has its own samples to learn from
    and to be judged on.
    """
    rows = []
    for level in LEVELS:
        low, high = (predictions[f"{model}, {level:.0%} {end}"] for end in ("low", "high"))
        inside = predictions["measured_ms"].between(low, high)
        width = (high - low) / predictions[model]
        frame = predictions[["store", "repetition"]].assign(inside=inside, width=width)
        for store, mine in [*frame.groupby("store", sort=False), ("all stores", frame)]:
            fits = mine.groupby("repetition")["inside"].mean()
            rows.append(
                {
                    "store": store,
                    "nominal": level,
                    "inside": fits.mean(),
                    "±": _half(fits),
                    "fits": len(fits),
                    "loads": len(mine),
                    "median width": mine["width"].median(),
                }
            )
    return pd.DataFrame(rows)


def coverage_by_size(predictions: pd.DataFrame, model: str = OURS) -> pd.DataFrame:
    """Return how often intervals held for fast, middle and slow loads.

    A row for each store, level and third; a third is one of the loads that a fit is judged on, by
    their predicted latency. The 95 % interval of a share is over fits.
    """
    number = predictions.groupby(["store", "repetition"])[model].transform(
        lambda values: pd.qcut(values.rank(method="first"), 3, labels=False)
    )
    third = number.map(dict(enumerate(THIRDS)))
    rows = []
    for level in LEVELS:
        low, high = (predictions[f"{model}, {level:.0%} {end}"] for end in ("low", "high"))
        inside = predictions["measured_ms"].between(low, high)
        width = (high - low) / predictions[model]
        keys = {"store": predictions["store"], "repetition": predictions["repetition"]}
        frame = pd.DataFrame({**keys, "third": third, "inside": inside, "width": width})
        for store, mine in [*frame.groupby("store", sort=False), ("all stores", frame)]:
            for name in THIRDS:
                part = mine[mine["third"] == name]
                fits = part.groupby("repetition")["inside"].mean()
                rows.append(
                    {
                        "store": store,
                        "nominal": level,
                        "third": name,
                        "inside": fits.mean(),
                        "±": _half(fits),
                        "loads": len(part),
                        "median width": part["width"].median(),
                    }
                )
    return pd.DataFrame(rows)


def crossings(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return how often each model tells which of two stores is the faster for a load.

    Loads are the same on all stores; pairs that differ by less than a tenth are left out.
    """
    keys = ["repetition", "random", "read", "bytes", "outstanding"]
    number = predictions.groupby(["store", *keys]).cumcount()
    wide = {
        name: predictions.assign(number=number)
        .pivot(index=[*keys, "number"], columns="store", values=name)
        .to_numpy()
        for name in ("measured_ms", *MODELS)
    }
    truth = np.log(wide["measured_ms"])
    left, right = np.triu_indices(truth.shape[1], 1)
    gap = truth[:, left] - truth[:, right]
    is_clear = np.abs(gap) > np.log(1.1)
    rows = []
    for name in MODELS:
        guess = wide[name][:, left] - wide[name][:, right]
        right_share = float((np.sign(guess) == np.sign(gap))[is_clear].mean())
        rows.append({"model": name, "order told rightly": right_share})
    return pd.DataFrame(rows)


def fastest(predictions: pd.DataFrame) -> pd.Series:
    """Return for what share of the loads each store is the fastest."""
    keys = ["repetition", "random", "read", "bytes", "outstanding"]
    best = predictions.loc[predictions.groupby(keys)["measured_ms"].idxmin(), "store"]
    return best.value_counts(normalize=True)


def _absolute(predictions: pd.DataFrame, models: Sequence[str]) -> pd.DataFrame:
    return predictions[list(models)].sub(predictions["measured_ms"], axis=0).abs()


def _half(values: pd.Series) -> float:
    """Return half of the 95 % interval of a mean; not a number for one value."""
    if len(values) < 2:
        return float("nan")
    return float(stats.t.ppf(0.975, len(values) - 1) * values.sem())
