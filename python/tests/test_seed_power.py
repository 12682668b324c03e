"""What a host draws: counters of the kernel, files of data sheets, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from intarsia.seed import power
from intarsia.seed.errors import SeedError

SHEET = {"source": "data sheet", "note": "the vendor's", "idle_watts": 90, "compute_watts": 40.5}
SHEET |= {"storage_watts": 8, "network_watts": 6}


def zone(root: Path, number: str, name: str, micro_joules: int) -> Path:
    made = root / f"intel-rapl:{number}"
    made.mkdir()
    (made / "name").write_text(f"{name}\n")
    (made / "energy_uj").write_text(f"{micro_joules}\n")
    (made / "max_energy_range_uj").write_text("10000000\n")
    return made / "energy_uj"


def test_packages_and_memory_count_and_their_parts_do_not(tmp_path: Path) -> None:
    first = zone(tmp_path, "0", "package-0", 9_000_000)
    zone(tmp_path, "0:0", "core", 5_000_000)
    memory = zone(tmp_path, "0:1", "dram", 0)
    joules = power.rapl(tmp_path)
    assert joules is not None
    assert joules() == 0.0
    memory.write_text("500000\n")
    assert joules() == pytest.approx(0.5)
    first.write_text("1000000\n")  # it began anew at 10 J
    assert joules() == pytest.approx(2.5)


def test_without_counters_nothing_is_measured(tmp_path: Path) -> None:
    assert power.rapl(tmp_path) is None
    assert power.rapl(tmp_path / "absent") is None


def test_each_state_is_measured_in_addition_to_idle(tmp_path: Path) -> None:
    readings = iter([0.0, 1.0, 1.0, 1e3, 1e3, 1e3])
    found = power.measured(lambda: next(readings), tmp_path, 1, 0.02)
    assert 0 < found["idle_watts"] <= 1 / 0.02
    assert found["compute_watts"] > 100
    assert found["storage_watts"] == 0.0
    assert list(tmp_path.iterdir()) == []


def test_a_data_sheet_is_taken_as_it_is(tmp_path: Path) -> None:
    sheet = tmp_path / "power.json"
    sheet.write_text(json.dumps(SHEET))
    assert power.known(sheet, tmp_path, 1) == SHEET


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"idle_watts": -1}, "idle_watts: watts of 0 or more"),
        ({"idle_watts": "much"}, "idle_watts: watts of 0 or more"),
        ({"colour": "red"}, "and no more"),
    ],
)
def test_a_wrong_data_sheet_is_refused(
    tmp_path: Path, changed: dict[str, object], says: str
) -> None:
    sheet = tmp_path / "power.json"
    sheet.write_text(json.dumps(SHEET | changed))
    with pytest.raises(SeedError, match=says):
        power.told(sheet)
    sheet.write_text("{")
    with pytest.raises(SeedError, match=r"power\.json: no JSON"):
        power.told(sheet)
