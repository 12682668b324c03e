"""The size of the store after further full backups, with an interval; and the naive forecast.

The recurrences are the published ones. Stored size follows from usr alone:

    base'   = base + unique x bgr
    unique' = full x usr + unique x (1 - bgr)
    stored' = stored + full x usr
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from intarsia.dedup.classes import Composition, Series, Transition
from intarsia.dedup.errors import DedupError

Draws = NDArray[np.float64]

LEAST_BACKUPS = 3

_DRAWS = 4000
# What is assumed of usr where few transitions were seen: from one to the next its logit scatters by
# this much (of a small usr: 15 %). The assumption weighs as much as so many transitions.
_PRIOR_SCATTER = 0.15
_PRIOR_WEIGHT = 4


class Method(StrEnum):
    """How usr and bgr are taken from what was observed."""

    INTARSIA = "intarsia"
    """usr from the mean change and its freshness, so that the first transition helps too."""
    CORRECTED = "corrected"
    """The published rates, without the first transition: what all of a first backup lacks is new,
    and nearly all of its content becomes base at once."""
    PRINTED = "printed"
    """The published rates as printed: averages over all transitions."""


@dataclass(frozen=True)
class Rates:
    """What the next transitions are expected to be like."""

    usr: float
    bgr: float


@dataclass(frozen=True)
class Point:
    """The store after one more backup."""

    backups: int
    state: Composition
    stored_low: float
    stored_high: float
    ratio_low: float
    ratio_high: float

    @property
    def ratio(self) -> float:
        """Stored over logical."""
        return self.state.ratio


@dataclass(frozen=True)
class Forecast:
    """A forecast for each backup up to the horizon."""

    method: Method
    rates: Rates
    confidence: float
    points: tuple[Point, ...]


def rates(series: Series, method: Method = Method.INTARSIA) -> Rates:
    """Take usr and bgr from a series of at least three backups."""
    _require(series)
    chosen = series.transitions if method is Method.PRINTED else series.transitions[1:]
    bgr = float(np.mean([one.bgr for one in chosen]))
    if method is Method.INTARSIA:
        return Rates(float(np.mean(_changes(series))), bgr)
    return Rates(float(np.mean([one.usr for one in chosen])), bgr)


def project(state: Composition, rates: Rates, fulls: Sequence[float]) -> list[Composition]:
    """Apply the recurrences for further backups of these sizes."""
    states = []
    for full in fulls:
        state = Composition(
            logical=state.logical + full,
            base=state.base + state.unique * rates.bgr,
            unique=full * rates.usr + state.unique * (1 - rates.bgr),
        )
        states.append(state)
    return states


def forecast(
    series: Series,
    horizon: int,
    method: Method = Method.INTARSIA,
    confidence: float = 0.95,
    seed: int = 1,
) -> Forecast:
    """Forecast `horizon` further backups.

    The interval is one of prediction: usr differs from transition to transition by as much as it
    did so far, its mean is known from few of them, and with few the scatter itself leans on an
    assumption (15 %). It covers no change of habits: a new application, a move of data.
    """
    if horizon < 1:
        raise DedupError(f"a horizon of {horizon} backups: give 1 or more")
    if not 0 < confidence < 1:
        raise DedupError(f"a confidence of {confidence}: give a share between 0 and 1, as 0.95")
    expected = rates(series, method)
    fulls = _sizes_to_come(series, horizon, has_growth=method is Method.INTARSIA)
    states = project(series.states[-1], expected, fulls)
    new = np.cumsum(_draw_usr(series, expected.usr, horizon, seed) * np.array(fulls), axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(series.states[-1].stored + new, [tail, 1 - tail], axis=0)
    # A forecast at the edge of what can be, such as no change at all, is in its own interval.
    low = np.minimum(low, [state.stored for state in states])
    high = np.maximum(high, [state.stored for state in states])
    return Forecast(
        method,
        expected,
        confidence,
        tuple(
            Point(
                len(series.fulls) + ahead + 1,
                state,
                float(low[ahead]),
                float(high[ahead]),
                float(low[ahead]) / state.logical,
                float(high[ahead]) / state.logical,
            )
            for ahead, state in enumerate(states)
        ),
    )


def naive_ratio(change_rate: float, backups: int) -> float:
    """Equation 7.1: the ratio of so many backups if each brings a share of new data.

    >>> round(naive_ratio(0.26, 5), 3)
    0.408
    """
    return (1 + (backups - 1) * change_rate) / backups


def naive_rate(series: Series) -> float:
    """Return the mean share of a backup that the one before it lacks."""
    _require(series)
    return float(np.mean([one.changed for one in series.transitions]))


def naive_anchored(series: Series, horizon: int) -> float:
    """Return the ratio that the change rate gives from what is stored now: the fairer baseline."""
    rate, full = naive_rate(series), series.fulls[-1]
    now = series.states[-1]
    return (now.stored + horizon * rate * full) / (now.logical + horizon * full)


def relative_error(forecast: float, truth: float) -> float:
    """Return how far a forecast is off, as a share of the truth."""
    return abs(forecast - truth) / truth


def _require(series: Series) -> None:
    if len(series.fulls) < LEAST_BACKUPS:
        raise DedupError(
            f"{len(series.fulls)} full backups are too few: a forecast needs {LEAST_BACKUPS}, as "
            "the first transition alone does not show what is new for good"
        )


def _changes(series: Series) -> list[float]:
    """Return what each transition says of usr to come.

    A first transition compares with one backup only, so it takes what comes back for new. Its
    share counts as fresh only as far as that of the later ones was.
    """
    later: Sequence[Transition] = series.transitions[1:]
    absent = sum(one.absent * one.full for one in later)
    fresh = sum(one.usr * one.full for one in later) / absent if absent else 1.0
    first = series.transitions[0].absent * min(1.0, fresh)
    return [first, *(one.usr for one in later)]


def _sizes_to_come(series: Series, horizon: int, has_growth: bool) -> list[float]:
    last = series.fulls[-1]
    steps = len(series.fulls) - 1
    growth = (last - series.fulls[0]) / steps if has_growth else 0.0
    return [max(last + growth * ahead, 0.0) for ahead in range(1, horizon + 1)]


def _draw_usr(series: Series, expected: float, horizon: int, seed: int) -> Draws:
    """Draw usr of the transitions to come: normal logits of unknown mean and scatter."""
    edge = 0.5 / (1 + max(series.fulls))
    seen = _logit(np.array(_changes(series)), edge)
    weight = _PRIOR_WEIGHT + len(seen) - 1
    squares = float(((seen - seen.mean()) ** 2).sum())
    variance = (_PRIOR_WEIGHT * _PRIOR_SCATTER**2 + squares) / weight
    generator = np.random.default_rng(seed)
    scatter = np.sqrt(variance * weight / generator.chisquare(weight, (_DRAWS, 1)))
    centre = _logit(np.array([expected]), edge)
    mean = centre + scatter / np.sqrt(len(seen)) * generator.standard_normal((_DRAWS, 1))
    logits = mean + scatter * generator.standard_normal((_DRAWS, horizon))
    return np.asarray(1 / (1 + np.exp(-logits)), np.float64)


def _logit(share: Draws, edge: float) -> Draws:
    """Return the logit of shares, which stay off 0 and 1 by at least `edge`."""
    inside = np.clip(share, edge, 1 - edge)
    return np.asarray(np.log(inside / (1 - inside)), np.float64)
