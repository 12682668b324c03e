from pathlib import Path

import pytest
from intarsia.demo.report import as_json, as_text, size
from intarsia.demo.session import Outcome
from intarsia.demo.trial import Tree, Trial
from intarsia.demo.workflow import StageTime


def outcome() -> Outcome:
    trials = [
        Trial(place, Path(place), seconds, 0.5, [StageTime("mAdd", 1, seconds)], {"m.fits": "1"})
        for place, seconds in (("native", 2.0), ("store", 3.0))
    ]
    status = {
        "node": "host",
        "durability": "interval",
        "passthrough": {"in_force": False, "reason": "kernel 6.1 has none"},
        "tiers": [{"dir": "/d", "class": "disk", "used_bytes": 2048}],
    }
    return Outcome("montage", "small", trials, Tree(1, 2048), status, requests=42)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_read_as_people_write_them(count: int, text: str) -> None:
    assert size(count) == text


def test_the_text_says_what_the_store_did() -> None:
    text = as_text(outcome())
    for part in (
        "bit-identical in all 2 runs (native and store)",
        "not in force: kernel 6.1 has none",
        "/d (disk): 2.0 KiB used",
        "42 kernel requests a run",
        "1.50 times native",
    ):
        assert part in text


def test_the_json_has_the_ratio_and_every_run() -> None:
    found = as_json(outcome())
    assert found["store_over_native"] == 1.5
    assert [run["place"] for run in found["runs"]] == ["native", "store"]


def test_a_lone_run_claims_no_agreement() -> None:
    lone = outcome()
    del lone.trials[1]
    assert as_json(lone)["identical"] is None
    assert "nothing to compare" in as_text(lone)
