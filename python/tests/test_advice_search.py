"""`intarsia advise --search`: an optimiser where there are too many configurations to predict."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from intarsia.advice import __main__ as command
from intarsia.advice.choices import _choices, space_of
from intarsia.advice.search import Search, Space, goals_of
from requirements import built_binary
from test_advice import profile, workload

POWER = {"source": "published", "note": "a table", "idle_watts": 92, "compute_watts": 34}
POWER |= {"storage_watts": 37, "network_watts": 36}


def made_up(one: Mapping[str, Any]) -> dict[str, Any] | None:
    """A landscape with its best at 11 hosts, round-robin over 8, chunks of 256 KiB, in no grid."""
    if one["storage_hosts"] is not None and one["storage_hosts"] >= one["hosts"]:
        return None
    seconds = 10 + abs(one["hosts"] - 11) + abs(one["chunk_bytes"].bit_length() - 19)
    if one["placement"] == "round-robin":
        seconds += abs(one["stripe_width"] - 8) - 5
    seconds += 3 * (one["scheduler"] == "workqueue") + (one["storage_hosts"] or 0) / 8
    return {"seconds": float(seconds), "host_seconds": float(seconds * one["hosts"])}


def searched(count: int, seed: int) -> list[tuple[float, float]]:
    search = Search(Space(hosts=tuple(range(1, 65))), ("time", "cost"), seed)
    batch = search.run(count, lambda ones: [made_up(one) for one in ones], lambda _: None)
    told = [made_up(one) for one in batch]
    return [(one["seconds"], one["host_seconds"]) for one in told if one is not None]


def hypervolume(points: list[tuple[float, float]], worst: tuple[float, float]) -> float:
    """The area that these beat, up to a worst point."""
    area, least = 0.0, worst[1]
    for seconds, cost in sorted(points):
        if seconds < worst[0] and cost < least:
            area += (worst[0] - seconds) * (least - cost)
            least = cost
    return area


def test_a_search_comes_near_the_front_of_all_combinations_with_few_of_them() -> None:
    space = Space(hosts=tuple(range(1, 65)))
    every = []
    for hosts, chunk, scheduler in itertools.product(
        space.hosts, space.chunk_bytes, space.schedulers
    ):
        one = {"hosts": hosts, "storage_hosts": None, "chunk_bytes": chunk, "scheduler": scheduler}
        told = made_up(one | {"placement": "local"})
        rest = [made_up(one | {"placement": "round-robin", "stripe_width": w}) for w in (1, 8, 64)]
        every += [(t["seconds"], t["host_seconds"]) for t in (told, *rest) if t is not None]
    worst = (120.0, 4_000.0)
    assert len(every) > 4_000
    whole = hypervolume(every, worst)
    for seed in (1, 2):
        found = searched(200, seed)
        assert len(found) <= 200
        assert hypervolume(found, worst) >= 0.95 * whole


def test_a_search_can_be_repeated_and_asks_nothing_twice() -> None:
    assert searched(48, 5) == searched(48, 5)
    asked: list[str] = []

    def predict(ones: list[dict[str, Any]]) -> list[Mapping[str, Any] | None]:
        asked.extend(json.dumps(one, sort_keys=True) for one in ones)
        return [made_up(one) for one in ones]

    small = Space((1, 2), ("local",), ("location",), (1 << 20,), storage_hosts=(None,))
    Search(small, ("time",)).run(500, predict, lambda _: None)
    assert len(asked) == len(set(asked)) == 2


def test_goals_follow_from_what_weighs_and_from_what_is_known() -> None:
    assert goals_of({"time": 1, "cost": 0, "energy": 2}, True) == ("time", "energy")
    assert goals_of(None, True) == ("time", "cost", "energy")


def test_flags_narrow_the_space() -> None:
    words = ["--hosts", "2,4", "--chunk", "256KiB,1MiB", "--storage-hosts", "all,1"]
    words += ["--frequency", "all"]
    with_power = profile() | {"host": {"frequencies": [{"mhz": 1200}]}}
    space = space_of(with_power, _choices().parse_args(words))
    assert space.hosts == (2, 4)
    assert space.chunk_bytes == (1 << 18, 1 << 20)
    assert space.storage_hosts == (None, 1)
    assert space.mhz == (None, 1200)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a workload and a profile that has prices and power."""
    built_binary()
    known = profile(hosts=8)
    known["host"]["power"] = POWER
    known["host"]["frequencies"] = [{"mhz": 1200, "speed": 0.5, "power": POWER}]
    known["prices"] = {"currency": "EUR", "per_host_hour": 1.0, "per_kilowatt_hour": 0.3}
    (tmp_path / "w.json").write_text(json.dumps(workload()))
    (tmp_path / "p.json").write_text(json.dumps(known))
    return tmp_path


def advise(place: Path, *more: str) -> int:
    return command.main([str(place / "w.json"), "--profile", str(place / "p.json"), *more])


def test_a_search_ends_in_an_advice_with_intervals_and_a_page(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--search", "32", "--frequency", "all", "--weigh", "time=1,energy=1", "--runs", "2"]
    assert advise(place, *words, "--report", str(place / "out"), "--json") == 0
    advice = json.loads(capsys.readouterr().out)
    assert 16 <= len(advice["points"]) <= 32
    best = advice["points"][advice["best"]]
    assert best["runs"] == 2
    assert best["half_width_seconds"] is not None
    assert best["joules"]["mean"] > 0
    assert best["money"]["mean"] > 0
    text = (place / "out/report.html").read_text()
    for said in ("EUR", "Wh", "a table"):
        assert said in text


def test_what_cannot_be_searched_is_said_by_the_program(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "p.json").write_text(json.dumps(profile() | {"colour": "red"}))
    assert advise(place, "--search", "8") == 2
    assert "unknown field 'colour'" in capsys.readouterr().err


def test_batches_are_dealt_to_the_workers_of_a_dask_scheduler(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
    ) as cluster:
        code = advise(
            place, "--search", "16", "--runs", "1", "--json", "--dask", cluster.scheduler_address
        )
    spread = json.loads(capsys.readouterr().out)
    assert code == 0
    assert advise(place, "--search", "16", "--runs", "1", "--json") == 0
    alone = json.loads(capsys.readouterr().out)
    assert spread["points"] == alone["points"]
