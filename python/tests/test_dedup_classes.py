"""Classes of segments, rates of transitions, forecasts, merging and exclusion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from intarsia.dedup.advice import Trend, data_class, merge, parts, without
from intarsia.dedup.chunkers import Chunker
from intarsia.dedup.classes import Classifier, Composition, Series, observe
from intarsia.dedup.corpora.traces import make_traces
from intarsia.dedup.corpora.trees import TREES, tree_traces
from intarsia.dedup.errors import DedupError
from intarsia.dedup.forecast import (
    Method,
    Rates,
    forecast,
    naive_anchored,
    naive_rate,
    naive_ratio,
    project,
    rates,
    relative_error,
)
from intarsia.dedup.study.published import DATA_SETS, profile
from intarsia.dedup.trace import Trace


def trace(name: str, *contents: int, size: int = 10) -> Trace:
    return Trace.of(name, np.array(contents, np.uint64), np.full(len(contents), size, np.int64))


def test_classes_of_a_small_example() -> None:
    # 1 2 3 3: 1 and 2 once, 3 twice. Then 1 4 5: 1 becomes base.
    observed = observe([trace("a", 1, 2, 3, 3), trace("b", 1, 4, 5)])
    assert observed.counts.states == (Composition(4, 2, 1), Composition(7, 3, 2))
    assert observed.bytes.states[1] == Composition(70, 30, 20)
    assert observed.counts.states[1].duplicate == 2
    step = observed.counts.transitions[0]
    assert step.bgr == pytest.approx(1 / 2)  # one of the two that were unique
    assert step.usr == pytest.approx(2 / 3)  # 4 and 5
    assert step.absent == step.changed == pytest.approx(2 / 3)


def test_batches_of_any_length_give_the_same() -> None:
    random = np.random.default_rng(5)
    ids = random.integers(0, 400, 1000).astype(np.uint64)
    sizes = (ids % np.uint64(7) + np.uint64(1)).astype(np.int64)
    whole, by_parts = Classifier(), Classifier()
    flags = whole.add(ids, sizes)
    edges = [0, 1, 2, 500, 1000]
    got = [by_parts.add(ids[a:b], sizes[a:b]) for a, b in itertools.pairwise(edges)]
    assert np.array_equal(np.concatenate(got), flags)
    assert by_parts.counts() == whole.counts()
    assert by_parts.bytes() == whole.bytes()
    _, counts = np.unique(ids, return_counts=True)
    assert whole.counts() == Composition(1000, int((counts == 1).sum()), int((counts > 1).sum()))


@pytest.mark.parametrize("name", ["exchange_is", "workstation"])
def test_stored_grows_by_usr_alone(name: str) -> None:
    """Whatever bgr is: it moves content from unique to base, and nothing else."""
    series = observe(make_traces(profile(name), 3, 2000)).counts
    for before, after, step in zip(
        series.states, series.states[1:], series.transitions, strict=False
    ):
        assert after.stored == pytest.approx(before.stored + step.usr * step.full)
        assert after.logical == after.unique + after.base + after.duplicate
    for bgr in (0.0, 0.5):
        states = project(series.states[-1], Rates(0.2, bgr), [100.0, 100.0])
        assert states[-1].stored == pytest.approx(series.states[-1].stored + 40)


def test_average_usr_of_the_published_ratios() -> None:
    derived = {row.name: row.usr for row in DATA_SETS}
    assert derived == pytest.approx(
        {
            "exchange": 0.1175,
            "exchange_is": 0.221,
            "exchange_mb": 0.966,
            "fredp4": 0.3775,
            "fredvar": 0.011,
            "workstation": 0.254,
        },
        abs=5e-4,
    )
    # usr of 0.26 for workstation gives the published 0.403 within 1.3 %.
    first = Composition(393_311, 393_311, 0)
    last = project(first, Rates(0.26, 0.0), [393_311.0] * 4)[-1]
    assert last.ratio == pytest.approx(0.408, abs=5e-4)
    assert naive_ratio(0.26, 5) == pytest.approx(0.408)


def test_published_cuts_of_the_error() -> None:
    cuts = {row.name: round(100 * (1 - row.error / row.naive_error)) for row in DATA_SETS}
    assert cuts == {
        "exchange": 70,
        "exchange_is": 76,
        "exchange_mb": -43,
        "fredp4": 90,
        "fredvar": 97,
        "workstation": 83,
    }


def test_the_first_transition_is_a_trap() -> None:
    """Nearly all of a first backup becomes base in the second; an average takes that in."""
    series = observe(make_traces(profile("workstation"), 1, 8000)).counts.until(3)
    assert series.transitions[0].bgr == pytest.approx(0.74, abs=0.03)
    corrected, printed = rates(series, Method.CORRECTED), rates(series, Method.PRINTED)
    assert corrected.bgr < 0.15
    assert printed.bgr > 0.35
    assert corrected.usr == pytest.approx(0.26, abs=0.02)


@pytest.mark.parametrize("row", DATA_SETS, ids=lambda row: row.name)
def test_forecasts_of_generated_traces(row: object) -> None:
    """Mean error at most the published one, below the change rate's, which is as published."""
    name, published, naive = row.name, row.error, row.naive_error  # type: ignore[attr-defined]
    errors = np.array([_errors(make_traces(profile(name), seed, 6000)) for seed in range(6)])
    ours, corrected, printed, simple = errors.mean(axis=0)
    assert ours <= published
    assert ours < simple
    assert simple == pytest.approx(naive, abs=0.03)
    if name not in ("exchange_mb", "workstation"):
        # There the first transition hardly differs from the others.
        assert corrected < printed


def _errors(traces: list[Trace], by_bytes: bool = False) -> list[float]:
    """Return the errors of ours, corrected, printed and naive, of three fulls for five."""
    observed = observe(traces)
    series = observed.bytes if by_bytes else observed.counts
    known, truth = series.until(3), series.states[4].ratio
    found = [
        forecast(known, 2, method).points[-1].ratio
        for method in (Method.INTARSIA, Method.CORRECTED, Method.PRINTED)
    ]
    return [relative_error(one, truth) for one in (*found, naive_ratio(naive_rate(known), 5))]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("seed", [1, 2])
def test_forecasts_of_files_that_live(tree: str, seed: int) -> None:
    ours, _, _, naive = _errors(tree_traces(tree, seed, Chunker()), by_bytes=True)
    assert ours <= 0.0542
    assert ours < naive


def test_intervals_hold_what_came() -> None:
    held = total = 0
    for row in DATA_SETS:
        for seed in range(5):
            series = observe(make_traces(profile(row.name), 100 + seed, 3000)).counts
            points = forecast(series.until(3), 2).points
            for point in points:
                truth = series.states[point.backups - 1]
                held += point.stored_low <= truth.stored <= point.stored_high
                total += 1
                assert point.stored_low <= point.state.stored <= point.stored_high
    assert held >= 0.9 * total


def test_an_interval_narrows_with_more_backups_and_widens_ahead() -> None:
    series = observe(make_traces(profile("workstation"), 2, 3000, fulls=10)).counts
    few, many = (forecast(series.until(count), 5) for count in (3, 10))

    def width(found: object, ahead: int) -> float:
        point = found.points[ahead]  # type: ignore[attr-defined]
        return float((point.stored_high - point.stored_low) / point.state.logical)

    assert width(many, 4) < width(few, 4)
    points = few.points
    assert points[-1].stored_high - points[-1].stored_low > (
        points[0].stored_high - points[0].stored_low
    )


def test_no_change_at_all_is_forecast_as_that() -> None:
    same = trace("x", 1, 2, 3, 4)
    series = observe([same, same, same]).counts
    point = forecast(series, 7).points[-1]
    assert point.state.stored == 4
    assert point.stored_low <= 4 <= point.stored_high
    assert naive_anchored(series, 7) == pytest.approx(4 / 40)


def test_a_forecast_says_what_it_lacks() -> None:
    series = observe([trace("a", 1), trace("b", 1)]).counts
    with pytest.raises(DedupError, match="2 full backups are too few"):
        forecast(series, 1)
    three = observe([trace("a", 1), trace("b", 1), trace("c", 2)]).counts
    with pytest.raises(DedupError, match="horizon of 0"):
        forecast(three, 0)


def _series(*states: tuple[float, float]) -> Series:
    compositions = tuple(Composition(100 * (n + 1), u, b) for n, (u, b) in enumerate(states))
    return Series(tuple(100.0 for _ in states), compositions, ())


def test_class_of_a_data_set() -> None:
    kinds = data_class(_series((100, 0), (20, 80), (40, 80), (60, 80.5)))
    assert (kinds.base, kinds.unique) == (Trend.STEADY, Trend.GROWING)
    kinds = data_class(_series((100, 0), (60, 60), (50, 80), (40, 100)))
    assert (kinds.base, kinds.unique) == (Trend.GROWING, Trend.SHRINKING)


def test_merging_what_shares_nothing_and_what_does() -> None:
    one = make_traces(profile("exchange"), 1, 2000)
    other = make_traces(profile("fredvar"), 1, 2000)
    counts, _ = merge(one, other, 3)
    assert counts.shared == 0
    assert counts.superposed == counts.together
    assert counts.superposed_rates.usr == pytest.approx(counts.together_rates.usr, rel=0.05)
    _, same = merge(one, one, 1)
    assert same.shared_share == pytest.approx(0.5)
    with pytest.raises(DedupError, match="5 and 4 full backups"):
        merge(one, other[:-1], 1)


def test_a_working_set_is_to_be_excluded() -> None:
    backups = tree_traces("desktop", 3, Chunker(), scale=0.3)
    found = {part.name: part for part in parts(backups)}
    assert [name for name, part in found.items() if part.exclude] == ["cache"]
    assert found["photos"].usr < 0.05
    assert "is new each time" in found["cache"].reason
    with_all, less = observe(backups).bytes, without(backups, ["cache"], 1).bytes
    assert less.states[-1].logical < with_all.states[-1].logical
    assert less.transitions[-1].usr < with_all.transitions[-1].usr
