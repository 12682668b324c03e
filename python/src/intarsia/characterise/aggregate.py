"""Loads that share a store: what they are together, and the latency of their requests.

Shares are from 0 to 1 inside this module and in per cent at its border, as in `Load`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import OUTSTANDING, RANDOM, Floats, Load, Points, points_of
from intarsia.characterise.model.base import Band, Model
from intarsia.characterise.model.conformal import Scores
from intarsia.characterise.model.process import StoreModel


class Rule(StrEnum):
    """How loads are merged."""

    CORRECTED = "corrected"
    """The published rule with its equations repaired: weights by throughput, pair by pair."""
    PRINTED = "printed"
    """The equations as printed, which are not of one dimension."""
    SYMMETRIC = "symmetric"
    """Weights by throughput; a request goes on in order if its load also sent the one before."""
    OUTSTANDING = "outstanding"
    """Every number averaged with the outstanding requests as weights, as Pesto does."""
    DEMAND = "demand"
    """Each load by itself at the depth of all, its order broken by the others; then averaged."""


def random_of_two(
    random_a: float, rate_a: float, random_b: float, rate_b: float, *, printed: bool = False
) -> float:
    """Return the random share (0 to 1) of two loads together, from theirs and their throughputs.

    >>> round(random_of_two(0.0, 2100.52, 1.0, 27.93), 4)
    0.0387
    >>> random_of_two(0.5, 56.77, 0.5, 56.77)
    0.75
    """
    total = rate_a + rate_b
    least = min(rate_a, rate_b)
    if printed:
        # Equation 6.4: a product where its text has a weighted mean, and a sign turned round.
        ordered = rate_a * rate_b * (1 - random_a) * (1 - random_b) / total
        return 1 - ordered * (1 + 2 * least)
    ordered = ((1 - random_a) * rate_a + (1 - random_b) * rate_b) / total
    switches = 2 * least / total * ordered
    return float(np.clip(1 - ordered * (1 - switches), 0, 1))


def merge(points: Points, rates: Floats, rule: Rule = Rule.CORRECTED) -> Floats:
    """Return one row for loads that share a store; `rates` are their throughputs there, alone.

    The corrected rule is not associative, so it takes the loads by falling throughput.
    """
    if len(points) == 0:
        raise CharacteriseError("no loads to merge")
    weights = points[:, OUTSTANDING] if rule is Rule.OUTSTANDING else rates
    merged = np.average(points, axis=0, weights=weights)
    merged[OUTSTANDING] = points[:, OUTSTANDING].sum()
    random = points[:, RANDOM] / 100
    if rule is Rule.SYMMETRIC:
        share = rates / rates.sum()
        merged[RANDOM] = 100 * (1 - float((share**2 * (1 - random)).sum()))
    elif rule in (Rule.CORRECTED, Rule.PRINTED):
        merged[RANDOM] = 100 * _folded(random, rates, printed=rule is Rule.PRINTED)
    return merged


def _folded(random: Floats, rates: Floats, *, printed: bool) -> float:
    order = np.argsort(-rates, kind="stable")
    together, rate = float(random[order[0]]), float(rates[order[0]])
    for one in order[1:]:
        together = random_of_two(
            together, rate, float(random[one]), float(rates[one]), printed=printed
        )
        rate += float(rates[one])
    return together


def rates_alone(model: Model, points: Points) -> Floats:
    """Return each load's throughput on a store with one request outstanding, in requests a second.

    One over the latency for each outstanding request: the published LQ-slope turned round.
    """
    slope = np.maximum(model.predict(points) / points[:, OUTSTANDING], 1e-6)
    return 1000 / slope


def latency(model: Model, loads: Sequence[Load], rule: Rule = Rule.CORRECTED) -> float:
    """Return the mean latency of all requests of loads that share a store, in ms; 0 for none."""
    if not loads:
        return 0.0
    points = points_of(loads)
    if rule is Rule.DEMAND:
        rows, share = _seen_by_each(points)
        return float(share @ model.predict(rows))
    merged = merge(points, rates_alone(model, points), rule)
    return float(model.predict(merged[None, :])[0])


def shared_latency(model: StoreModel, loads: Sequence[Load], confidence: float) -> Band:
    """Return our prediction for loads that share a store, with its interval; zeros for none.

    Rule, correction and width come from loads that were measured together, once the model went
    through `calibrated`; before, the width is that of single loads.
    """
    if not loads:
        return Band(np.zeros(1), np.zeros(1), np.zeros(1))
    is_mixed = len(loads) > 1
    centre, deviation = _shared(model, loads, Rule(model.mixed_rule))
    scores = (model.mixed_scores if is_mixed else None) or model.scores
    mean = np.array([centre + (model.mixed_shift if is_mixed else 0.0)])
    half = scores.quantile(mean, confidence) * deviation
    return Band(np.exp(mean - half), np.exp(mean), np.exp(mean + half))


def calibrated(
    model: StoreModel, mixes: Sequence[Sequence[Load]], latency_ms: Floats
) -> StoreModel:
    """Return the model with the rule that fits loads measured together best, and its errors.

    Which rule does depends on how a store shares itself: a queue serves whoever has most requests
    in it, a disk that is read ahead of serves whoever goes on in order.
    """
    tried = [_with_rule(model, rule, mixes, latency_ms) for rule in _RULES]
    return min(tried, key=lambda one: one[0])[1]


_RULES = (Rule.DEMAND, Rule.CORRECTED, Rule.SYMMETRIC)


def _with_rule(
    model: StoreModel, rule: Rule, mixes: Sequence[Sequence[Load]], latency_ms: Floats
) -> tuple[float, StoreModel]:
    """Return the mean error with a rule, and the model that has it."""
    guessed = [_shared(model, mix, rule) for mix in mixes]
    centres, deviations = np.array(guessed).T
    errors = np.log(latency_ms) - centres
    shift = float(np.median(errors))
    scores = Scores((errors - shift) / deviations, centres + shift)
    made = replace(model, mixed_scores=scores, mixed_shift=shift, mixed_rule=rule.value)
    return float(np.abs(errors - shift).mean()), made


def _shared(model: StoreModel, loads: Sequence[Load], rule: Rule) -> tuple[float, float]:
    """Return the logarithm of the latency and its standard deviation, without the correction."""
    points = points_of(loads)
    if rule is Rule.DEMAND:
        rows, share = _seen_by_each(points)
        mean, deviation = model.logarithm(rows)
        return float(np.log(share @ np.exp(mean))), float(share @ deviation)
    mean, deviation = model.logarithm(merge(points, rates_alone(model, points), rule)[None, :])
    return float(mean[0]), float(deviation[0])


def _seen_by_each(points: Points) -> tuple[Points, Floats]:
    """Return each load at the depth of all together, and its share of all requests.

    Whoever keeps O requests in one queue has that share of all. A request goes on in order if it
    should, and if its load also sent the one before.
    """
    depth = points[:, OUTSTANDING].sum()
    share = points[:, OUTSTANDING] / depth
    rows = points.copy()
    rows[:, RANDOM] = 100 - share * (100 - points[:, RANDOM])
    rows[:, OUTSTANDING] = depth
    return rows, share
