"""Balancing: searches with known answers, plans with reasons, and a trial on simulated stores."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from intarsia.characterise import aggregate, design, published, samples, stores
from intarsia.characterise.__main__ import main
from intarsia.characterise.balance import search, trial, verdict
from intarsia.characterise.balance.draws import random_pool
from intarsia.characterise.balance.knowledge import learn
from intarsia.characterise.balance.methods import methods
from intarsia.characterise.balance.plan import Wishes, make_plan
from intarsia.characterise.balance.pool import Evaluator, PlacedLoad, Placement, Pool, merit, moved
from intarsia.characterise.balance.score import Score, reductions
from intarsia.characterise.balance.truth import Truth, descend, groups
from intarsia.characterise.errors import CharacteriseError, OutsideError
from intarsia.characterise.load import Load, points_of
from intarsia.characterise.model import linear, process
from intarsia.characterise.model.base import Samples
from intarsia.characterise.stores.simulated import presets
from simulator import real_binary

TABLE = {name: linear.from_coefficients(t) for name, t in published.COEFFICIENTS.items()}
SMALL = Load(100, 70, 8192, 2)


@pytest.fixture(scope="module")
def models() -> dict[str, process.StoreModel]:
    """Our models of two published stores; the errors of groups are as small as those of loads."""
    points = design.spread(96, design.Region(2048, 2**20, 1, 32), seed=2)
    random = np.random.default_rng(1)
    made = {}
    for name in ("E2", "N1"):
        latency = TABLE[name].predict(points) * np.exp(random.normal(0, 0.03, len(points)))
        made[name] = process.fit(Samples(points, latency))
    return made


def pool_of(*loads: PlacedLoad, room: float = 1e15) -> Pool:
    return Pool(("E2", "N1"), (room, room), loads)


def test_the_merit_weighs_the_slowest_most() -> None:
    assert merit(np.array([3.0, 4.0]), 2) == pytest.approx(5)
    assert merit(np.array([1.0, 10.0])) == pytest.approx(10, rel=1e-4)
    assert merit(np.array([1e200, 1e200]), 5) == pytest.approx(1e200 * 2**0.2)
    assert merit(np.zeros(3)) == 0
    assert merit(np.array([3.0, 4.0]), 1, np.array([2.0, 1.0])) == pytest.approx(10)


def counted() -> tuple[Pool, Evaluator, list[tuple[int, int]]]:
    """Six equal loads on the first of two stores, of which the second is twice as slow."""
    asked: list[tuple[int, int]] = []

    def predict(store: int, loads: Sequence[Load]) -> float:
        asked.append((store, len(loads)))
        return len(loads) * (1.0 + store)

    loads = tuple(PlacedLoad(f"l{n}", SMALL, 1e9, 0) for n in range(6))
    pool = Pool(("a", "b"), (1e15, 1e15), loads)
    return pool, Evaluator(pool, predict), asked


def test_a_move_predicts_its_source_and_its_target_alone() -> None:
    asked: list[int] = []

    def predict(store: int, loads: Sequence[Load]) -> float:
        asked.append(store)
        return float(len(loads))

    loads = tuple(PlacedLoad(f"l{n}", SMALL, 1e9, n % 4) for n in range(8))
    pool = Pool(tuple("abcd"), (1e15,) * 4, loads)
    evaluator = Evaluator(pool, predict)
    evaluator.merit(pool.placement)
    assert asked == [0, 1, 2, 3]
    evaluator.merit(moved(pool.placement, 2, 1))
    assert asked[4:] == [1, 2]


def test_greedy_moves_reach_the_best_split_and_keep_to_their_budget() -> None:
    pool, evaluator, asked = counted()
    way = search.greedy(pool, evaluator.merit)
    assert [sum(one) for one in way] == [0, 1, 2]
    assert [sum(one) for one in search.greedy(pool, evaluator.merit, most_moves=1)] == [0, 1]
    assert len(asked) < 40, "a group of loads is predicted once"
    assert len(search.greedy(pool, evaluator.merit, least_gain=0.9)) == 1


def test_annealing_finds_the_best_split_and_a_seed_means_one_answer() -> None:
    pool, evaluator, _ = counted()
    found = search.anneal(pool, evaluator.merit, seed=5)
    assert sum(found) == 2
    assert found == search.anneal(pool, evaluator.merit, seed=5)
    way = search.realise(pool, evaluator.merit, found)
    assert way[-1] == found
    merits = [evaluator.merit(one) for one in way]
    assert merits == sorted(merits, reverse=True), "the move that helps most comes first"
    assert len(search.realise(pool, evaluator.merit, found, most_moves=1)) == 2


def test_a_full_store_and_a_pinned_load_are_respected() -> None:
    big, small = PlacedLoad("big", SMALL, 80, 1), PlacedLoad("small", SMALL, 30, 1)
    pinned = PlacedLoad("pinned", SMALL, 10, 1, is_pinned=True)
    pool = Pool(("a", "b"), (50, 200), (big, small, pinned))
    assert pool.moves(pool.placement) == [(1, 0)]
    with pytest.raises(CharacteriseError, match="its capacity is 50"):
        Pool(("a", "b"), (200, 50), (big, small, pinned))


def test_a_plan_says_what_moves_why_at_what_cost_and_how_surely(
    models: dict[str, process.StoreModel],
) -> None:
    pool = pool_of(
        PlacedLoad("shop", SMALL, 120e9, 1),
        PlacedLoad("mail", Load(100, 67, 4096, 2), 60e9, 1),
        PlacedLoad("films", Load(0, 98, 65536, 1), 60e9, 0),
    )
    plan = make_plan(pool, models, Wishes(most_moves=1))
    (move,) = plan.moves
    assert (move.name, move.source, move.target) in (("shop", "N1", "E2"), ("mail", "N1", "E2"))
    assert plan.merit_after_ms < plan.merit_before_ms
    assert move.copy_s == (1200 if move.name == "shop" else 600)
    assert move.pays_back_s >= move.copy_s
    assert 0.8 <= move.probability <= 1
    for word in (move.name, "random", "from N1 to E2", "ms", "min", "paid back", "probability"):
        assert word in move.sentence
    # The truth agrees: latencies on N1 fall.
    loads = [one.load for one in pool.loads if one.store == 1]
    assert plan.before_ms["N1"] == pytest.approx(aggregate.latency(TABLE["N1"], loads), rel=0.4)


def test_a_move_that_is_not_sure_or_does_not_pay_back_is_declined_with_its_reason(
    models: dict[str, process.StoreModel],
) -> None:
    pool = pool_of(
        PlacedLoad("shop", SMALL, 120e9, 1), PlacedLoad("mail", Load(100, 67, 4096, 2), 60e9, 1)
    )
    hasty = make_plan(pool, models, Wishes(horizon_s=60))
    assert hasty.moves == ()
    assert hasty.declined
    assert "pay back after" in hasty.declined[0]
    assert hasty.placement == pool.placement
    sure = make_plan(pool, models, Wishes(confidence=0.99999))
    bold = make_plan(pool, models, Wishes(confidence=0.5))
    assert len(sure.moves) <= len(bold.moves)
    assert len(bold.moves) >= 1


def test_a_load_outside_what_was_measured_stops_the_plan(
    models: dict[str, process.StoreModel],
) -> None:
    pool = pool_of(PlacedLoad("huge", Load(0, 0, 2**25, 1), 1, 1), PlacedLoad("b", SMALL, 1, 0))
    with pytest.raises(OutsideError, match="store N1: a load of 3"):
        make_plan(pool, models)
    with pytest.raises(CharacteriseError, match="no model of N1"):
        make_plan(pool_of(PlacedLoad("b", SMALL, 1, 0)), {"E2": models["E2"]})


def test_every_simulated_store_keeps_the_law_of_queues_and_differs_by_load() -> None:
    real_binary()
    loads = [published.load(name, 4) for name in ("web-file-4k", "sql-log", "vod")]
    cases = [(settings, [load]) for settings in presets().values() for load in loads]
    found = stores.measure(cases, requests=300, warmup=200)
    for one in found:
        assert one.iops * one.mean_ms / 1000 == pytest.approx(4, rel=0.15)
    means = np.array([one.mean_ms for one in found]).reshape(len(presets()), 3)
    orders = {tuple(column.argsort().tolist()) for column in means.T}
    assert len(orders) > 1, "the ranks of the stores cross"


def test_two_loads_in_order_seek_together_and_their_seeks_are_told_apart() -> None:
    real_binary()
    load = Load(0, 100, 4096, 1)
    (found,) = stores.measure([(stores.preset("disk"), [load, load])], requests=400)
    assert found.random > 95
    assert found.seek_between > 95
    assert found.seek_within < 5
    with pytest.raises(CharacteriseError, match="no simulated store 'tape'"):
        stores.preset("tape")
    with pytest.raises(CharacteriseError, match=r"run 1: store\.disks"):
        stores.measure([({**stores.preset("fc-raid5"), "disks": 2}, [load])])


def test_a_small_trial_is_scored_on_the_truth_and_ours_helps(tmp_path: Path) -> None:
    real_binary()
    names = ("fc-raid5", "sata-raid5", "volume")
    knowledge = learn(names, points=96, mixes=24, say=lambda _: None)
    scores = trial.run(knowledge, tests=4, say=lambda _: None)
    assert set(methods(knowledge)) < set(scores)
    for score in scores.values():
        assert len(score.moves) == len(score.loads_ms) == 4
    found = reductions(scores, "our model, greedy", "stores_ms")
    assert found["mean"].value > 0.1
    assert found["maximum"].value > 0
    assert all(one.low <= one.value <= one.high for one in found.values())
    assert reductions(scores, "start")["mean"].value == 0
    words = {one.verdict for one in verdict.verdicts(scores)}
    assert words <= {"reproduced", "calibrated", "refuted", "not possible here"}


@pytest.mark.parametrize(("reached", "said"), [(0.6, "not possible here"), (0.4, "refuted")])
def test_a_target_is_out_of_reach_if_no_descent_on_the_truth_comes_there(
    reached: float, said: str
) -> None:
    def score(left: float) -> Score:
        rows = [left * np.array([4.0, 8.0 + test]) for test in range(5)]
        return Score(rows, rows, [2] * 5)

    models = ("constant slope", "published model", "our model")
    names = [f"{model}, {way}" for model in models for way in ("greedy", "annealing")]
    scores = {name: score(0.7) for name in (*verdict.BASELINES, *names, "our plan, 80 % sure")}
    scores |= {"start": score(1), "descent on the truth": score(0.65)}
    scores["descent on its mean"] = score(reached)
    mean = verdict.verdicts(scores)[0]
    assert mean.verdict == said
    assert f"-{1 - reached:.0%}" in mean.reason
    assert mean.reason.endswith("(descent on its mean)")


def test_descending_on_the_truth_lowers_what_it_is_asked_to() -> None:
    real_binary()
    names = ("fc-raid5", "volume")
    drawn, truth = random_pool(names, 3), Truth(names, seed=5)
    pool = replace(drawn, loads=tuple(replace(one, store=0) for one in drawn.loads))

    def latencies(placement: Placement) -> list[float]:
        on = enumerate(groups(pool, placement))
        return [truth.get(store, loads).mean_ms if loads else 0.0 for store, loads in on]

    start = latencies(pool.placement)
    mean, largest = (latencies(descend(truth, pool, alpha)[-1]) for alpha in (1.0, 64.0))
    assert np.mean(mean) < np.mean(start)
    assert max(largest) < max(start)
    assert max(largest) <= max(mean)


def test_samples_come_back_and_bad_ones_are_refused_by_their_line(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    points = design.spread(8, seed=1)
    made = samples.Measurements(
        Samples(points, np.linspace(1, 8, 8)), ((SMALL, SMALL),), np.array([12.5])
    )
    samples.write(path, made)
    again = samples.read(path)
    assert again.single.points == pytest.approx(points, rel=1e-5)
    assert again.groups == ((SMALL, SMALL),)
    assert again.group_latency_ms.tolist() == [12.5]
    text = path.read_text()
    for bad, message in (
        ("", "is empty"),
        (text.replace("latency_ms", "latency_us"), "the columns are"),
        (text[:-3], "was cut off"),
        (text.replace(",1,", ",-1,", 1), r"samples.csv:\d"),
        (text.replace("12.5", "fast"), "fast"),
        ("random,read,bytes,outstanding,latency_ms\n", "no load was measured by itself"),
    ):
        path.write_text(bad)
        with pytest.raises(CharacteriseError, match=message):
            samples.read(path)


POOL = """\
[stores.fast]
model = "fast.json"
capacity = "2 TB"
[stores.slow]
model = "slow.json"
capacity = "8 TB"
[loads.shop]
store = "slow"
size = "120 GB"
random = 100
read = 70
bytes = "8k"
outstanding = 3
[loads.mail]
store = "slow"
size = "60 GB"
random = 100
read = 67
bytes = "4k"
outstanding = 2
"""


def test_a_session_from_samples_to_advice(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    models: dict[str, process.StoreModel],
) -> None:
    for name, store in (("fast", "E2"), ("slow", "N1")):
        one = models[store].samples
        measured = samples.Measurements(one, (), np.empty(0))
        samples.write(tmp_path / f"{name}.csv", measured)
        out = str(tmp_path / f"{name}.json")
        assert main(["fit", str(tmp_path / f"{name}.csv"), "--out", out]) == 0
    assert "model of 96 loads" in capsys.readouterr().out
    fast = str(tmp_path / "fast.json")
    assert main(["predict", fast, "--load", "100,70,8k,3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    truth = float(TABLE["E2"].predict(points_of([Load(100, 70, 8192, 3)]))[0])
    assert found["low_ms"] < truth < found["high_ms"]
    assert main(["predict", fast, "--load", "100,70,64m,3"]) == 1
    assert "outside what was measured" in capsys.readouterr().err
    pool = tmp_path / "pool.toml"
    pool.write_text(POOL)
    assert main(["balance", str(pool)]) == 0
    assert "Move shop (8 KiB" in capsys.readouterr().out
    assert main(["balance", str(pool), "--json", "--moves", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)["moves"]) == 1
    for old, new, message in (
        ("read = 70", "read = 700", "loads.shop: read: 700"),
        ('store = "slow"', 'store = "tape"', "no store tape"),
        ("outstanding = 3\n", "", "loads.shop: outstanding is missing"),
        ('"120 GB"', '"much"', "loads.shop.size: 'much' is no size"),
        ("slow.json", "none.json", "none.json"),
        ("[loads.shop]", "[loads.shop", "pool.toml"),
        ('bytes = "8k"', 'bites = "8k"', "unknown field bites"),
    ):
        pool.write_text(POOL.replace(old, new))
        assert main(["balance", str(pool)]) == 1
        assert message in capsys.readouterr().err
