"""The clock of a run while somebody sets that of its host."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest
from intarsia.run.attempt import attempt
from intarsia.run.clock import steady_clock
from intarsia.run.keeper import Keeper
from intarsia.run.order import Order, Result


@pytest.fixture
def set_back(monkeypatch: pytest.MonkeyPatch) -> float:
    """The time of day, which goes back by an hour whenever it is looked at from now on."""
    now_s = time.time()
    hours = itertools.count()
    monkeypatch.setattr(time, "time", lambda: now_s - 3600 * next(hours))
    return now_s


def test_a_clock_that_is_set_back_goes_on(set_back: float) -> None:
    clock = steady_clock()
    first_s, second_s = clock(), clock()
    assert abs(first_s - set_back) < 60
    assert 0 <= second_s - first_s < 60


def test_no_attempt_ends_before_it_began(set_back: float, tmp_path: Path) -> None:
    keeper = Keeper()
    try:
        order = Order("a", 1, "true", str(tmp_path), (), (), {}, str(tmp_path / "log"))
        outcome = attempt(order, keeper)
    finally:
        keeper.close()
    assert outcome.result is Result.DONE
    assert 0 <= outcome.took_s < 60
    assert outcome.began_s <= set_back + 60
