"""Whether a store still is as its model says, by loads that were measured later.

An interval holds for loads measured under the conditions of those that the model was fitted to. A
store that fills up, a neighbour that came, or a measurement in an unquiet hour changes both the
latency and how much it scatters; neither shows in the samples of one session.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Floats
from intarsia.characterise.model.base import Samples
from intarsia.characterise.model.conformal import Scores
from intarsia.characterise.model.process import StoreModel

LEAST = 20
"""Fewer fresh loads tell neither coverage nor a shift."""
_LEVEL = 0.01
"""Two tests at this level call one unchanged store in fifty changed."""
_NOMINAL = 0.9


@dataclass(frozen=True)
class Check:
    """Fresh measurements held against a model."""

    loads: int
    inside_90: float
    inside_95: float
    inside_90_low: float
    """The 95 % interval of the share (Clopper and Pearson 1934)."""
    inside_90_high: float
    slower: float
    """Median of the measured latency over the predicted one, less one."""
    shift_chance: float
    """Of a shift at least as large, were there none (Mann and Whitney's test)."""
    scatter_chance: float
    """Of errors at least as large, did the store scatter as before (the same, one-sided)."""

    @property
    def is_shifted(self) -> bool:
        """Whether the latency has changed."""
        return self.shift_chance < _LEVEL

    @property
    def is_wider(self) -> bool:
        """Whether the latency scatters more than it did."""
        return self.scatter_chance < _LEVEL


def check(model: StoreModel, fresh: Samples) -> Check:
    """Hold fresh measurements against a model.

    Fresh errors are compared with those on the loads that were left out when it was fitted, not
    with zero: a model errs by itself, and that is no change of the store. Raises
    `CharacteriseError` when there are too few, `OutsideError` when one lies outside what the model
    was fitted to.
    """
    errors = _errors(model, fresh)
    inside = {
        level: model.interval(fresh.points, level).covers(fresh.latency_ms)
        for level in (_NOMINAL, 0.95)
    }
    held = int(inside[_NOMINAL].sum())
    share = stats.binomtest(held, len(fresh)).proportion_ci(0.95, "exact")
    before, now = model.scores.values, errors / model.logarithm(fresh.points)[1]
    # That it scatters more is asked of what the shift leaves over.
    rest = np.abs(now - np.median(now)), np.abs(before - np.median(before))
    return Check(
        len(fresh),
        float(inside[_NOMINAL].mean()),
        float(inside[0.95].mean()),
        float(share.low),
        float(share.high),
        float(np.expm1(np.median(errors))),
        float(stats.mannwhitneyu(now, before).pvalue),
        float(stats.mannwhitneyu(*rest, alternative="greater").pvalue),
    )


def recalibrated(model: StoreModel, fresh: Samples) -> StoreModel:
    """Return the model with the shift and the scatter of fresh measurements.

    Its shape stays: a few loads tell by how much all of them changed, not how each did. Raises
    what `check` does.
    """
    errors = _errors(model, fresh)
    shift = float(np.median(errors))
    mean, deviation = model.logarithm(fresh.points)
    scores = Scores((errors - shift) / deviation, mean + shift)
    return replace(model, shift=model.shift + shift, scores=scores)


def _errors(model: StoreModel, fresh: Samples) -> Floats:
    if len(fresh) < LEAST:
        raise CharacteriseError(
            f"{len(fresh)} fresh loads are too few to tell a change: measure {LEAST} at least"
        )
    model.require_inside(fresh.points)
    return np.log(fresh.latency_ms) - model.logarithm(fresh.points)[0]
