from pathlib import Path

import pytest
from intarsia.demo.trial import (
    ResultsDifferError,
    Tree,
    Trial,
    check_equal,
    median_seconds,
    median_stages,
    schedule,
)
from intarsia.demo.workflow import StageTime


def trial(place: str, seconds: float, results: dict[str, str]) -> Trial:
    return Trial(place, Path(place), seconds, 0.0, [StageTime("s", 1, seconds)], results)


def test_the_order_of_places_turns_round() -> None:
    assert schedule(["native", "store"], 3) == [
        *("native", "store"),
        *("store", "native"),
        *("native", "store"),
    ]


def test_medians_are_of_one_place() -> None:
    trials = [trial("native", seconds, {}) for seconds in (1.0, 9.0, 2.0)]
    trials.append(trial("store", 5.0, {}))
    assert median_seconds(trials, "native") == 2.0
    assert median_seconds(trials, "nowhere") is None
    assert median_stages(trials, "native") == [StageTime("s", 1, 2.0)]


def test_a_difference_is_an_error_that_names_the_file() -> None:
    check_equal(trial("native", 1, {"m.fits": "1"}), trial("store", 1, {"m.fits": "1"}))
    with pytest.raises(ResultsDifferError, match=r"m\.fits differs"):
        check_equal(trial("native", 1, {"m.fits": "1"}), trial("store", 1, {"m.fits": "2"}))


def test_nothing_to_compare_is_not_success() -> None:
    with pytest.raises(ResultsDifferError, match="nothing to compare"):
        check_equal(trial("native", 1, {}), trial("store", 1, {}))


def test_a_tree_counts_files_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"12345")
    assert Tree.of(tmp_path) == Tree(files=1, logical_bytes=5)
