"""Raw samples of the study: tables of single measurements, from which all else is drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from intarsia.characterise import aggregate, published, stores
from intarsia.characterise.aggregate import Rule
from intarsia.characterise.balance import trial
from intarsia.characterise.balance.knowledge import calibrate, learn, measure_store
from intarsia.characterise.balance.score import Score, as_json, from_json
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Floats, Load, points_of
from intarsia.characterise.model import evaluate, linear, process
from intarsia.characterise.model import terms as products
from intarsia.characterise.model.base import Model, Samples
from intarsia.simulate.files import write_atomically

Row = dict[str, Any]
Tell = Callable[[str], None]

LEVELS = (0.90, 0.95)
TABLES = ("predictions", "terms", "longer", "seeks", "pairs")
POOLS = trial.POOLS
SCREENS = ("fio", "postmark")
PAIRED = ("sata-raid0", "fc-raid6")
"""In place of E1 and N2, on which pairs of loads were published."""
LONGER_STORE, LONGER_REQUESTS = "disk", 3200
"""Two runs of a load differ so much there that a mean of 800 requests is half noise. A published
run took two minutes, in which a disk answers some ten thousand."""
_LONGER_FITS = 3
_SEEK_STORE = "sata-raid0"
_SHARES = (0.0, 25.0, 50.0, 75.0, 100.0)
_HAVE_INTERVAL = ("published model", "published, true interval", "gradient boosting", evaluate.OURS)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    stores: tuple[str, ...]
    repetitions: int
    fitted_on: int
    judged_on: int
    mixes: int
    seek_requests: int
    tests: int


WHOLE = Size(tuple(stores.presets()), 10, 500, 1000, 80, 4000, 50)
QUICK = Size(("fc-raid5", "ssd"), 1, 64, 64, 12, 400, 2)


@dataclass(frozen=True)
class Raw:
    """Everything that was measured."""

    tables: dict[str, pd.DataFrame]
    scores: dict[str, dict[str, Score]]
    """Of balancing: by pool, then by method."""
    screens: dict[str, Path] = field(default_factory=dict)
    """Runs of `screen`, by benchmark."""


def measure(
    size: Size, seed: int, directory: Path, tell: Tell, *, with_oracle: bool = False
) -> None:
    """Measure everything on simulated stores; what is done is written before the next begins.

    `with_oracle` adds descent on the truth itself to balancing: what can be reached.
    """
    directory.mkdir(parents=True, exist_ok=True)

    def keep(name: str, frame: pd.DataFrame) -> None:
        frame.to_csv(directory / f"{name}.csv.gz", index=False, float_format="%.6g")

    tell("1 of 4: models on loads that they have not seen")
    predictions, terms = _predictions(size, seed, tell)
    keep("predictions", predictions)
    keep("terms", terms)
    keep("longer", _longer(size, seed))
    tell("2 of 4: seeks of two loads on one store")
    keep("seeks", pd.DataFrame(list(_seeks(size, seed))))
    tell("3 of 4: pairs of usual loads")
    keep("pairs", pd.DataFrame(list(_pairs(size, seed))))
    for name, pool in POOLS.items():
        tell(f"4 of 4: balancing, pool '{name}'")
        known = learn(pool, points=size.fitted_on, mixes=size.mixes, seed=seed, say=tell)
        scores = trial.run(known, tests=size.tests, seed=seed, with_oracle=with_oracle, say=tell)
        text = as_json(scores)
        write_atomically(directory / f"balancing-{name}.json", text.encode())


def keep_screen(directory: Path, name: str, out: Path) -> None:
    """Copy the runs of a `screen --out` to the raw samples."""
    found = out / "runs.jsonl"
    if not found.exists():
        raise CharacteriseError(f"{found} is not there: `screen --out {out}` writes it")
    write_atomically(directory / f"{name}.jsonl", found.read_bytes())


def read(directory: Path) -> Raw:
    """Read what `measure` wrote; raises `CharacteriseError` that names what is missing."""
    paths = {name: directory / f"{name}.csv.gz" for name in TABLES}
    scores = {name: directory / f"balancing-{name}.json" for name in POOLS}
    if missing := [path.name for path in (*paths.values(), *scores.values()) if not path.exists()]:
        raise CharacteriseError(f"{directory} lacks {', '.join(missing)}: run the study anew")
    try:
        return Raw(
            {name: pd.read_csv(path) for name, path in paths.items()},
            {name: from_json(path.read_text()) for name, path in scores.items()},
            {name: path for name in SCREENS if (path := directory / f"{name}.jsonl").exists()},
        )
    except (ValueError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise CharacteriseError(f"{directory}: {error!r}: run the study anew") from None


def _predictions(size: Size, seed: int, tell: Tell) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fit all models again and again to other loads, and let them predict others still."""
    frames, terms = [], []
    for turn in range(size.repetitions):
        pool = _samples(size.stores, size.fitted_on, 1000 * seed + turn)
        left_out = _samples(size.stores, size.judged_on, 1000 * seed + 500 + turn)
        fitted = evaluate.fit_all(pool)
        for store in size.stores:
            models = {name: by_store[store] for name, by_store in fitted.items()}
            frames.append(_judged(models, left_out[store]).assign(store=store, repetition=turn))
            chances = products.p_values(pool[store].points, pool[store].latency_ms)
            for term, chance in chances.items():
                terms.append({"store": store, "repetition": turn, "term": term, "p": chance})
        tell(f"  {turn + 1} of {size.repetitions}: {len(size.stores)} stores")
    return pd.concat(frames, ignore_index=True), pd.DataFrame(terms)


def _longer(size: Size, seed: int) -> pd.DataFrame:
    """Fit all models to longer measurements of one store, and judge them on such."""
    names = (LONGER_STORE,)
    frames = []
    for turn in range(min(size.repetitions, _LONGER_FITS)):
        place = 1000 * seed + turn
        pool = _samples(names, size.fitted_on, place, LONGER_REQUESTS)
        left_out = _samples(names, size.judged_on, place + 500, LONGER_REQUESTS)
        models = {name: of[LONGER_STORE] for name, of in evaluate.fit_all(pool).items()}
        judged = _judged(models, left_out[LONGER_STORE])
        frames.append(judged.assign(store=LONGER_STORE, repetition=turn))
    return pd.concat(frames, ignore_index=True)


def _samples(
    names: Sequence[str], count: int, seed: int, requests: int = 800
) -> dict[str, Samples]:
    return {name: measure_store(name, count, seed, requests) for name in names}


def _judged(models: dict[str, Model], left_out: Samples) -> pd.DataFrame:
    columns: dict[str, Floats] = {
        **dict(zip(("random", "read", "bytes", "outstanding"), left_out.points.T, strict=True)),
        "measured_ms": left_out.latency_ms,
    }
    for name, model in models.items():
        columns[name] = model.predict(left_out.points)
        if name in _HAVE_INTERVAL:
            for level in LEVELS:
                band = model.interval(left_out.points, level)
                columns[f"{name}, {level:.0%} low"] = band.low_ms
                columns[f"{name}, {level:.0%} high"] = band.high_ms
    return pd.DataFrame(columns)


def _seeks(size: Size, seed: int) -> Iterator[Row]:
    """Two readers of 4 KiB with one request each, alone and together (figure 6.3)."""
    settings = stores.preset(_SEEK_STORE)
    loads = {share: Load(share, 100, 4096, 1) for share in _SHARES}
    found = stores.measure(
        [(settings, [load]) for load in loads.values()], seed=seed, requests=size.seek_requests
    )
    rates = {share: one.iops for share, one in zip(loads, found, strict=True)}
    pairs = list(combinations_with_replacement(_SHARES, 2))
    together = stores.measure(
        [(settings, [loads[one], loads[other]]) for one, other in pairs],
        seed=seed + 1,
        requests=size.seek_requests,
    )
    for (one, other), truth in zip(pairs, together, strict=True):
        points = points_of([loads[one], loads[other]])
        by_rate = np.array([rates[one], rates[other]])
        merged = {
            str(rule): aggregate.merge(points, by_rate, rule)[0]
            for rule in (Rule.CORRECTED, Rule.PRINTED, Rule.SYMMETRIC, Rule.OUTSTANDING)
        }
        # Together a slow reader holds a fast one back: what the rules give for the true rates.
        by_true_rate = np.array([stream.iops for stream in truth.streams])
        merged |= {
            f"{rule}, together": aggregate.merge(points, by_true_rate, rule)[0]
            for rule in (Rule.CORRECTED, Rule.SYMMETRIC)
        }
        yield {
            "store": _SEEK_STORE,
            "random_a": one,
            "random_b": other,
            "rate_a": rates[one],
            "rate_b": rates[other],
            "rate_a_together": by_true_rate[0],
            "rate_b_together": by_true_rate[1],
            "measured": truth.random,
            "within": truth.seek_within,
            "between": truth.seek_between,
            "weighted": float(np.average([one, other], weights=by_rate)),
            **merged,
        }


def _pairs(size: Size, seed: int) -> Iterator[Row]:
    """All pairs of usual loads on two stores, with 1 to 3 requests outstanding each."""
    random = np.random.default_rng(seed)
    names = list(combinations(published.LOADS, 2))
    pairs = [
        [published.load(name, float(random.integers(1, 4))) for name in both] for both in names
    ]
    for store in PAIRED:
        samples = measure_store(store, size.fitted_on, seed)
        alone = process.fit(samples)
        ours = calibrate(store, alone, size.mixes, seed)
        theirs = linear.fit_published(samples, "prediction")
        settings = stores.preset(store)
        found = stores.measure([(settings, pair) for pair in pairs], seed=seed + 31)
        for both, pair, truth in zip(names, pairs, found, strict=True):
            points = points_of(pair)
            merged = aggregate.merge(points, aggregate.rates_alone(theirs, points))
            band = theirs.interval(merged[None, :], 0.95)
            mine = aggregate.shared_latency(ours, pair, 0.95)
            yield {
                "store": store,
                "pair": " + ".join(both),
                "measured_ms": truth.mean_ms,
                "published": float(band.mean_ms[0]),
                "published low": float(band.low_ms[0]),
                "published high": float(band.high_ms[0]),
                "by outstanding": aggregate.latency(theirs, pair, Rule.OUTSTANDING),
                "ours by outstanding": aggregate.latency(alone, pair, Rule.OUTSTANDING),
                "ours corrected": aggregate.latency(alone, pair, Rule.CORRECTED),
                "ours": float(mine.mean_ms[0]),
                "ours low": float(mine.low_ms[0]),
                "ours high": float(mine.high_ms[0]),
            }
