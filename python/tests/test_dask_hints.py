"""Which files a scheduler of Dask has spread, told by the tasks that name them."""

from __future__ import annotations

from typing import Any

import pytest
from intarsia.engines import dask_hints
from intarsia.engines.dask_hints import Readers
from intarsia.locate import Located, Locations
from intarsia.schedule.host import LINK_BYTES_PER_S

LARGE = 20_000_000


@pytest.fixture
def told() -> list[dict[str, Any]]:
    """What is told of hints."""
    return []


@pytest.fixture
def readers(told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Readers:
    """Readers of a store that takes all hints but those of the file `refused`."""
    problem = PermissionError(1, "Operation not permitted")
    monkeypatch.setattr(
        dask_hints, "spread", lambda paths: {p: problem for p in paths if p == "refused"}
    )
    return Readers(LINK_BYTES_PER_S, told.append)


def at(*paths: str, size_bytes: int = LARGE) -> Locations:
    return Locations(tuple(Located(path, size_bytes, {"a": size_bytes}) for path in paths))


def test_what_many_waiting_tasks_name_is_spread_once(
    readers: Readers, told: list[dict[str, Any]]
) -> None:
    for number in range(4):
        readers.add(f"read-{number}", ["big", f"{number}"])
    readers.add("other", ["rare"])
    for _ in range(2):
        readers.begin(at("big", "0", "rare"), 4, set())
    assert told == [{"path": "big", "pattern": "broadcast", "why": "4 tasks name it"}]
    for number in range(4):
        readers.discard(f"read-{number}")
    readers.add("again", ["big"])
    readers.begin(at("big"), 4, set())
    assert len(told) == 1


def test_tasks_that_are_done_are_no_readers_and_small_files_not_worth_it(
    readers: Readers, told: list[dict[str, Any]]
) -> None:
    for number in range(4):
        readers.add(number, ["big", "small"])
    readers.begin(at("small", size_bytes=100_000), 4, set())
    readers.begin(at("big"), 2, set())
    missing = Locations((Located("big", problem="No such file or directory"),))
    readers.begin(missing, 4, set())
    readers.discard(0)
    readers.discard(1)
    readers.begin(at("big"), 4, set())
    assert told == []


def test_who_makes_a_file_anew_does_not_count_as_its_reader(
    readers: Readers, told: list[dict[str, Any]]
) -> None:
    readers.add("make", ["big"])
    for number in range(4):
        readers.add(number, ["big"])
    readers.begin(at("big"), 4, set(range(4)))
    assert told == [], "what is there is of an earlier run"
    readers.discard("make")
    readers.begin(at("big"), 4, {"later"})
    assert [one["why"] for one in told] == ["4 tasks name it"]


def test_what_a_store_refuses_is_told(readers: Readers, told: list[dict[str, Any]]) -> None:
    for number in range(4):
        readers.add(number, ["refused"])
    readers.begin(at("refused"), 4, set())
    assert told[0]["why"] == "refused: Operation not permitted"
