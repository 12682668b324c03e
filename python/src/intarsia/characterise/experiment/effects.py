"""What each knob does: effects with intervals, ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment.design import Design
from intarsia.characterise.load import Floats


@dataclass(frozen=True)
class Effect:
    """What a factor does to a metric."""

    name: str
    value: float
    """Mean at the high level less mean at the low level, in the unit of the metric."""
    low: float
    high: float
    """The interval of the value."""
    share: float
    """Of the sum of all factors' absolute effects."""
    is_dummy: bool = False

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def main_effects(design: Design, measured: Floats, confidence: float = 0.95) -> list[Effect]:
    """Return the effects of all factors, the largest first, then those of unused columns.

    `measured` has a row for each run and a column for each repetition. The noise is that between
    repetitions; without any it is Lenth's estimate, from effects that are small. Raises
    `CharacteriseError` when values are missing.
    """
    if measured.shape[0] != len(design.signs) or not np.isfinite(measured).all():
        raise CharacteriseError("not every run of the design has its measurements")
    effects = 2 * design.signs.T @ measured.mean(axis=1) / len(design.signs)
    half = _half_width(design, measured, effects, confidence)
    total = np.abs(effects[: len(design.names)]).sum()
    unused = [f"unused {number + 1}" for number in range(design.dummies)]
    found = [
        Effect(
            name,
            float(value),
            float(value - half),
            float(value + half),
            float(abs(value) / total) if total > 0 and place < len(design.names) else 0.0,
            place >= len(design.names),
        )
        for place, (name, value) in enumerate(zip([*design.names, *unused], effects, strict=True))
    ]
    return sorted(found, key=lambda one: (one.is_dummy, -abs(one.value)))


def printed_shares(design: Design, measured: Floats) -> dict[str, float]:
    """Return each factor's share as equation 4.2 prints it: of the sum of effects with their signs.

    Such shares can be of any size and sign, and add up to 1 all the same. `main_effects` divides by
    the sum of absolute effects.
    """
    effects = design.signs.T @ measured.mean(axis=1)
    used = effects[: len(design.names)]
    return dict(zip(design.names, (used / used.sum()).tolist(), strict=True))


def important(effects: Sequence[Effect], share: float = 0.5) -> list[Effect]:
    """Return the fewest factors that make up this share of all effects."""
    chosen: list[Effect] = []
    for one in effects:
        if sum(other.share for other in chosen) >= share:
            break
        if not one.is_dummy:
            chosen.append(one)
    return chosen


def _half_width(design: Design, measured: Floats, effects: Floats, confidence: float) -> float:
    runs, repetitions = measured.shape
    if repetitions > 1:
        freedom = runs * (repetitions - 1)
        variance = measured.var(axis=1, ddof=1).mean()
        error = 2 * np.sqrt(variance / (runs * repetitions))
        return float(stats.t.ppf((1 + confidence) / 2, freedom) * error)
    # Lenth 1989: most effects are noise, and the median of those tells its size.
    size = np.abs(effects)
    first = 1.5 * np.median(size)
    pseudo = 1.5 * np.median(size[size < 2.5 * first]) if first > 0 else 0.0
    return float(stats.t.ppf((1 + confidence) / 2, len(effects) / 3) * pseudo)
