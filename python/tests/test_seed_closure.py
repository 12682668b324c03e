"""The seeding measurement itself is foretold from the profile that it gave, to two per cent.

The store is made up: its times are known, and some calls are late, so that samples are drawn.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from intarsia.seed import __main__ as command
from intarsia.seed.closure import closure
from intarsia.seed.errors import SeedError
from intarsia.seed.probe import CALLS, MIB
from intarsia.seed.profile import Made, profile_of
from intarsia.seed.remote import Remote
from intarsia.seed.rounds import DISTURBED, Measurement, Plan
from requirements import built_binary

#: Published for predictors of this kind, of their own seeding benchmarks.
BOUND = 0.02
SIZE = 16 * MIB


@pytest.fixture(autouse=True)
def _binary() -> None:
    built_binary()


def line(request_s: float, byte_s: float) -> dict[int, float]:
    return {call: request_s + call * byte_s for call in CALLS}


def made_up(kept: bool, far: bool) -> tuple[Measurement, Plan]:
    """A store of known times, which keeps files in memory or not, on one host or two.

    One call in five takes twice as long as the others, and one round in three is a little slow.
    """
    kinds = {"write": line(1e-5, 1e-9), "cold": line(2e-5, 5e-10), "first": line(1e-3, 2e-9)}
    kinds["warm"] = line(0, 1e-10) if kept else kinds["cold"]
    if not kept:
        kinds["first"] = kinds["cold"]
    if far:
        kinds["far"] = line(0, 1e-8)
    times = {f"{kind}_{call}": one for kind, of in kinds.items() for call, one in of.items()}
    times |= {"create": 5e-5, "first_write": 3e-5, "close_write": 1e-6, "close_mib": 1e-4}
    times |= {"open": 3e-6, "close_read": 1e-6} | ({"far_open": 2.03e-4} if far else {})
    found = Measurement(SIZE)
    for number in range(9):
        slow = 1 + 0.03 * (number % 3)
        late = [5 / 6 * slow * (1 + (call % 5 == 0)) for call in range(20)]
        rows = {name: [seconds * one for one in late] for name, seconds in times.items()}
        found.add(rows | {DISTURBED: [0.0]})
    remote = Remote(Path("/tmp")) if far else None
    found.facts = [{"processors": [1.0], "memory_bytes": [1e9]}] if far else []
    return found, Plan(Path("/tmp"), remote)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("far", [True, False])
def test_each_part_of_the_measurement_is_foretold_from_its_profile(kept: bool, far: bool) -> None:
    found, plan = made_up(kept, far)
    profile = profile_of(found, plan, Made("x", 2 if far else 1, None, None, ()))
    assert (profile["host"]["cache_bytes"] > 0) is kept
    assert isinstance(profile["tiers"][0]["write"]["request_seconds"], dict)
    told = {one["part"]: one for one in closure(profile, found)}
    expected = {"names", "write", "read, cold and warm"} | (
        {"read by another host"} if far else set()
    )
    assert set(told) == expected
    for part in told.values():
        assert abs(part["error"]) < BOUND, part


def without_samples(part: Any) -> Any:
    """The same profile with the mean of samples in the place of these."""
    if isinstance(part, dict) and "samples" in part:
        return sum(part["samples"]) / len(part["samples"])
    if isinstance(part, dict):
        return {name: without_samples(one) for name, one in part.items()}
    return [without_samples(one) for one in part] if isinstance(part, list) else part


def test_samples_change_no_mean_that_is_foretold() -> None:
    found, plan = made_up(kept=True, far=True)
    profile = profile_of(found, plan, Made("x", 2, None, None, ()))
    drawn, constant = (closure(one, found) for one in (profile, without_samples(profile)))
    for one, other in zip(drawn, constant, strict=True):
        assert one["predicted_seconds"] == pytest.approx(other["predicted_seconds"], rel=0.01)
    assert any(
        one["predicted_seconds"] != other["predicted_seconds"]
        for one, other in zip(drawn, constant, strict=True)
    )


def test_a_profile_that_is_off_is_seen() -> None:
    found, plan = made_up(kept=True, far=False)
    profile = copy.deepcopy(profile_of(found, plan, Made("x", 1, None, None, ())))
    profile["tiers"][0]["write"]["bytes_per_second"] /= 1.1
    off = {one["part"]: one["error"] for one in closure(profile, found)}
    assert off["write"] == pytest.approx(0.1, abs=BOUND)
    assert abs(off["read, cold and warm"]) < BOUND


def test_a_profile_that_cannot_be_read_is_named() -> None:
    found, plan = made_up(kept=True, far=False)
    profile = profile_of(found, plan, Made("x", 1, None, None, ())) | {"hosts": 0}
    with pytest.raises(SeedError, match=r"--check: .*hosts: 0"):
        closure(profile, found)


def test_a_user_checks_a_profile_as_it_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, place = tmp_path / "p.json", tmp_path / "place"
    place.mkdir()
    quick = ["--seconds", "0.2", "--size", "2MiB", "--slots", "1"]
    assert command.main([str(place), *quick, "--check", "--out", str(out)]) == 0
    parts = json.loads(out.read_text())["measured"]["closure"]
    assert [one["part"] for one in parts] == ["names", "write", "read, cold and warm"]
    printed = capsys.readouterr().out
    assert all(f"check, {one['part']}: " in printed for one in parts)
