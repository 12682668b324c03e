"""The slips of the published text, as printed and corrected, with the figures that each gives.

All of it is computed from the published tables alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import permutations

import numpy as np
import pandas as pd

from intarsia.characterise import aggregate, design, published
from intarsia.characterise.aggregate import Rule, random_of_two
from intarsia.characterise.balance import search
from intarsia.characterise.balance.draws import random_pool
from intarsia.characterise.balance.pool import Evaluator, Placement, Pool
from intarsia.characterise.experiment import design_for, main_effects
from intarsia.characterise.experiment.effects import printed_shares
from intarsia.characterise.experiment.factors import read_built_in
from intarsia.characterise.load import Load, points_of
from intarsia.characterise.model import linear
from intarsia.characterise.model.base import Samples

COLUMNS = ("slip", "what", "printed", "corrected", "switch")
_RATES = {0.0: 2100.52, 50.0: 56.77, 100.0: 27.93}
"""Requests a second of 4 KiB readers on E1, by their random share in per cent."""
_TESTS = 20
_NOISE = 0.3


def errata_frame(seed: int = 1) -> pd.DataFrame:
    """Compute both readings of each slip."""
    rows = [
        _levels_and_signs(seed),
        _counts(),
        _grid(),
        _dot_product(),
        _interval(seed),
        _errors(),
        _slope_of_n2(),
        _seeks(),
        _order(),
        _sorting(),
        *_words(),
        _terms(),
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _levels_and_signs(seed: int) -> tuple[str, ...]:
    made = design_for(("a", "b", "c"), folded=False)
    a, b, c = made.signs.T[:3]
    measured = (10 * a - 9 * b - 2 * c)[:, None] + 0.0
    printed = printed_shares(made, measured)
    corrected = {one.name: one.share for one in main_effects(made, measured)}
    return (
        "F1, F2",
        "Effects from the mean to the high level, and shares of their signed sum (effects of "
        "+20, -18 and -4)",
        ", ".join(f"{name} {share:+.0%}" for name, share in printed.items()),
        ", ".join(f"{name} {corrected[name]:.0%}" for name in "abc"),
        "`printed_shares`, `main_effects`",
    )


def _counts() -> tuple[str, ...]:
    fio, postmark = (read_built_in(name) for name in ("fio-published", "postmark"))
    return (
        "F3",
        "22 factors of fio, three tools, 2048 runs of PostMark's, create_append_ratio",
        "22; 3; 2048",
        f"the table has 20, of which we vary {len(fio.factors)}; 2; "
        f"{2 ** len(postmark.factors)} for {len(postmark.factors)}; create_delete_ratio",
        "factor files",
    )


def _grid() -> tuple[str, ...]:
    sizes = (len(design.grid(design.AS_PRINTED)), len(design.grid()))
    hours = [count * 2 / 60 for count in sizes]
    return (
        "F4",
        "A test vector of 1600 loads",
        f"{sizes[0]} loads, {hours[0]:.1f} h at 2 minutes each",
        f"{sizes[1]} loads, {hours[1]:.1f} h",
        "`grid(AS_PRINTED)`, `grid()`",
    )


def _dot_product() -> tuple[str, ...]:
    load = points_of([published.load("oltp", 1)])
    value = float(linear.from_coefficients(published.COEFFICIENTS["E2"]).predict(load)[0])
    return (
        "F5",
        "The prediction is a cross product of load and model",
        "a cross product is a vector, and no latency",
        f"the dot product: {value:.3f} ms for a request of OLTP on E2",
        "a documented choice",
    )


def _interval(seed: int) -> tuple[str, ...]:
    points = design.grid()
    kinds: tuple[linear.Interval, ...] = ("printed", "prediction")
    inside: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number, table in enumerate(published.COEFFICIENTS.values()):
        truth = linear.from_coefficients(table).predict(points)
        random = np.random.default_rng([seed, number])
        # Log-normal with mean 1.
        draw = partial(random.lognormal, -(_NOISE**2) / 2, _NOISE, len(points))
        samples, new = Samples(points, truth * draw()), truth * draw()
        for kind in kinds:
            band = linear.fit_published(samples, kind).interval(points, 0.95)
            inside[kind].append(float(band.covers(new).mean()))
    return (
        "F6",
        "The 95 % interval is 1.96 sigma over the root of n (published tables as the truth, 30 % "
        "noise)",
        f"holds {np.mean(inside['printed']):.0%} of new measurements",
        f"that of a prediction holds {np.mean(inside['prediction']):.0%}",
        '`fit_published(samples, "printed")`, `"prediction"`',
    )


def _errors() -> tuple[str, ...]:
    return (
        "F7",
        "Pesto 60 % ahead of Basil, ours 83 % of Pesto; quartiles of the factorial out of order",
        "60 %; 83 %",
        f"{1 - 292.5 / 642.4:.0%}; {1 - 44.34 / 292.5:.1%} by its own table; all computed afresh",
        "computed from raw samples",
    )


def _slope_of_n2() -> tuple[str, ...]:
    load = points_of([Load(100, 100, 4096, 1)])
    found = {
        name: float(linear.from_coefficients(table).predict(load)[0])
        for name, table in published.COEFFICIENTS.items()
    }
    return (
        "F8",
        "Slopes of 4 KiB random reads agree between tables 5.4 and 5.6",
        ", ".join(f"{name} {slope:.1f}" for name, slope in published.PESTO_SLOPES.items()),
        ", ".join(f"{name} {slope:.1f}" for name, slope in found.items())
        + f": N2 differs by {found['N2'] / published.PESTO_SLOPES['N2']:.1f} times",
        "table 5.4 is the truth wherever both would be needed",
    )


def _seeks() -> tuple[str, ...]:
    rate = _RATES[0.0]
    return (
        "F9",
        "Random share of two sequential loads of one throughput together",
        f"{random_of_two(0.0, rate, 0.0, rate, printed=True):.3g}",
        f"{random_of_two(0.0, rate, 0.0, rate):.4f}",
        "`Rule.PRINTED`, `Rule.CORRECTED`",
    )


def _order() -> tuple[str, ...]:
    found = []
    for first, second, third in permutations(_RATES):
        both = random_of_two(first / 100, _RATES[first], second / 100, _RATES[second])
        rate = _RATES[first] + _RATES[second]
        found.append(random_of_two(both, rate, third / 100, _RATES[third]))
    points = points_of([Load(share, 100, 4096, 1) for share in _RATES])
    fixed, symmetric = (
        aggregate.merge(points, np.array(list(_RATES.values())), rule)[0] / 100
        for rule in (Rule.CORRECTED, Rule.SYMMETRIC)
    )
    return (
        "F10",
        "Merging pair by pair is associative (three readers on E1)",
        f"{min(found):.4f} to {max(found):.4f}, by the order",
        f"{fixed:.4f} by falling throughput; {symmetric:.4f} by the symmetric rule",
        "`Rule.CORRECTED`, `Rule.SYMMETRIC`",
    )


def _sorting() -> tuple[str, ...]:
    names = tuple(published.COEFFICIENTS)
    models = [linear.from_coefficients(published.COEFFICIENTS[name]) for name in names]

    def predict(store: int, loads: Sequence[Load]) -> float:
        return aggregate.latency(models[store], loads)

    def lowered(pool: Pool, target: Placement, *, printed: bool) -> float:
        merit = Evaluator(pool, predict).merit
        way = search.realise(pool, merit, target, 2, printed=printed)
        return 1 - merit(way[-1]) / merit(way[0])

    falls: dict[bool, list[float]] = {True: [], False: []}
    for test in range(_TESTS):
        pool = random_pool(names, test)
        target = search.anneal(pool, Evaluator(pool, predict).merit, seed=test)
        for printed, found in falls.items():
            found.append(lowered(pool, target, printed=printed))
    return (
        "F11",
        f"Algorithm 3 takes the head of a list sorted downwards ({_TESTS} tests on the published "
        "tables, two moves)",
        f"the objective falls by {np.mean(falls[True]):.0%}",
        f"the best first: by {np.mean(falls[False]):.0%}; also: all of the best placement is kept, "
        "the heat falls by 1.2 a step and begins at the objective",
        "`realise(printed=True)`",
    )


def _words() -> list[tuple[str, ...]]:
    return [
        (
            "F12",
            "Basil and Pesto are named by turns for one baseline",
            "one baseline",
            "both are run",
            "a documented choice",
        ),
        (
            "F13",
            "-70 % of the worst and -20 % of the mean latency, beside -78 % and -52 %",
            "-70 %; -20 %",
            "no experiment supports those; those of chapter 6 count",
            "a documented choice",
        ),
        (
            "F14, F22",
            "12 measurements in 2 hours; windows of 20 s and averages over 2 minutes",
            "12",
            f"{2 * 60 // 2} of 2 minutes; the window is a parameter",
            "`workload --window`, `measure --seconds`",
        ),
    ]


def _terms() -> tuple[str, ...]:
    counts = {name: len(table) for name, table in published.COEFFICIENTS.items()}
    return (
        "F20",
        "4 or 5 terms for a store",
        "4 or 5",
        ", ".join(f"{name} {count}" for name, count in counts.items()) + ", by table 5.4",
        "computed from the table",
    )
