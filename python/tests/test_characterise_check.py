"""Models held against fresh measurements, and rounds of measurements in an unquiet hour."""

import json
from pathlib import Path

import numpy as np
import pytest
from intarsia.characterise import design, published, samples
from intarsia.characterise.__main__ import main
from intarsia.characterise.errors import CharacteriseError, OutsideError
from intarsia.characterise.load import Load, points_of
from intarsia.characterise.model import linear, process
from intarsia.characterise.model.base import Samples
from intarsia.characterise.model.check import check, recalibrated
from intarsia.characterise.model.conformal import Scores
from intarsia.characterise.samples import Measurements
from intarsia.characterise.stores.rounds import kept_beside, measure_rounds, spread_of

TRUTH = linear.from_coefficients(published.COEFFICIENTS["E2"])


def measured(count: int, seed: int, *, times: float = 1.0, noise: float = 0.05) -> Samples:
    points = design.spread(count, seed=seed)
    errors = np.random.default_rng([seed, 1]).normal(0, noise, count)
    return Samples(points, TRUTH.predict(points) * times * np.exp(errors))


@pytest.fixture(scope="module")
def model() -> process.StoreModel:
    return process.fit(measured(120, 1))


def test_a_store_that_has_not_changed_is_told_so(model: process.StoreModel) -> None:
    found = check(model, measured(200, 2))
    assert not found.is_shifted
    assert not found.is_wider
    assert found.inside_90_low < found.inside_90 < found.inside_90_high
    assert abs(found.slower) < 0.02


def test_a_slower_store_and_an_unsteady_one_are_found_and_calibrated_anew(
    model: process.StoreModel,
) -> None:
    slower = check(model, measured(40, 3, times=1.5))
    assert slower.is_shifted
    assert slower.slower == pytest.approx(0.5, abs=0.1)
    unsteady = check(model, measured(60, 4, noise=0.4))
    assert unsteady.is_wider
    for changes, room in (({"times": 1.5}, 0.05), ({"noise": 0.4}, 0.2)):
        anew = recalibrated(model, measured(100, 5, **changes))
        later = check(anew, measured(300, 6, **changes))
        assert later.inside_90 == pytest.approx(0.9, abs=0.06), changes
        assert abs(later.slower) < room
    # A second time it goes on from there.
    twice = recalibrated(recalibrated(model, measured(40, 7, times=2)), measured(40, 8, times=3))
    assert np.exp(twice.shift) == pytest.approx(3, rel=0.1)


def test_too_few_fresh_loads_and_loads_elsewhere_are_refused(model: process.StoreModel) -> None:
    with pytest.raises(CharacteriseError, match="too few to tell"):
        check(model, measured(19, 1))
    far = Samples(points_of([Load(1, 1, 2**22, 1)] * 20), np.ones(20))
    with pytest.raises(OutsideError):
        check(model, far)


def test_check_tells_and_writes(
    model: process.StoreModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.json").write_text(json.dumps(model.as_json()))
    fresh = measured(40, 3, times=1.5)
    samples.write(tmp_path / "fresh.csv", Measurements(fresh, (), np.empty(0)))
    words = ["check", str(tmp_path / "m.json"), str(tmp_path / "fresh.csv")]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "slower than its model says" in told
    assert "give --out" in told
    assert main([*words, "--out", str(tmp_path / "anew.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["is_shifted"]
    words[1] = str(tmp_path / "anew.json")
    assert main(words) == 0
    assert "as its model says" in capsys.readouterr().out


def test_each_part_has_its_own_quantile_if_there_are_enough_scores() -> None:
    at = np.repeat([0.0, 1.0, 2.0], 60)
    values = np.tile(np.linspace(0, 1, 60), 3) * np.repeat([3.0, 2.0, 1.0], 60)
    scores = Scores(values, at)
    low, middle, high = scores.quantile(np.array([-5.0, 1.0, 9.0]), 0.9)
    assert (low, middle, high) == pytest.approx((2.75, 1.83, 0.92), abs=0.05)
    # Sixty scores cannot tell a quantile of 99 %, all together can.
    assert len(set(scores.quantile(at, 0.99))) == 1
    assert np.isinf(scores.quantile(at, 0.999)).all()
    assert len(set(Scores(values[:70], at[:70]).quantile(at, 0.9))) == 1
    assert Scores.from_json(scores.as_json()).quantile(at, 0.9) == pytest.approx(
        scores.quantile(at, 0.9)
    )


def test_a_round_that_is_spoilt_moves_no_load(tmp_path: Path) -> None:
    truth, said = np.linspace(1, 2, 30), []

    def measure(number: int) -> float:
        said.append(number)
        # The machine stalls during the second half of the first round.
        return float(truth[number] * (8 if 15 <= len(said) <= 30 else 1))

    with kept_beside(tmp_path / "a.csv", ["plan"]) as kept:
        found = measure_rounds(30, 3, 1, kept, measure, lambda: None)
    assert np.median(found, axis=0) == pytest.approx(truth)
    assert sorted(said[:30]) == sorted(said[30:60]) == list(range(30))
    assert said[:30] != said[30:60]
    assert spread_of(found).max() == pytest.approx(7)
    assert not list(tmp_path.iterdir())


def test_rounds_go_on_where_they_were(tmp_path: Path) -> None:
    said: list[int] = []

    def measure(number: int) -> float:
        said.append(number)
        if len(said) == 7:
            raise KeyboardInterrupt
        return 1.0 + number

    for _ in range(2):
        try:
            with kept_beside(tmp_path / "a.csv", ["plan"]) as kept:
                found = measure_rounds(5, 2, 1, kept, measure, lambda: None)
        except KeyboardInterrupt:
            assert (tmp_path / "a.csv.part").exists()
    assert len(said) == 11
    assert found == pytest.approx(np.tile(1.0 + np.arange(5), (2, 1)))
