"""How long an engine was at work, by clocks that a test sets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from intarsia.run.attempts import Attempt, alone_among
from intarsia.run.effort import Effort
from intarsia.run.imitate import TOOK, imitated_s, parsed
from intarsia.run.order import Outcome, Result


@dataclass
class Clocks:
    """Two clocks that go when they are told to."""

    wall_s: float = 5.0
    cpu_s: float = 1.0

    def go(self, wall_s: float, cpu_s: float) -> None:
        self.wall_s += wall_s
        self.cpu_s += cpu_s


def effort_of(clocks: Clocks) -> Effort:
    return Effort(wall=lambda: clocks.wall_s, cpu=lambda: clocks.cpu_s)


def turn(effort: Effort, clocks: Clocks, *, counts: bool) -> None:
    effort.works()
    clocks.go(1.0, 0.5)
    effort.waits()
    clocks.go(100.0, 0.25)
    effort.works()
    clocks.go(2.0, 2.0)
    effort.ends_turn(counts=counts)
    clocks.go(7.0, 7.0)


def test_work_counts_by_the_clock_and_waiting_by_the_processor() -> None:
    clocks = Clocks()
    effort = effort_of(clocks)
    for _ in range(3):
        turn(effort, clocks, counts=True)
    assert (effort.worked_s, effort.beside_s) == (9.0, 0.75)


def test_turns_in_which_nothing_happened_are_left_out() -> None:
    clocks = Clocks()
    effort = effort_of(clocks)
    for counts in (False, True, False):
        turn(effort, clocks, counts=counts)
    assert (effort.worked_s, effort.beside_s) == (3.0, 0.25)


@pytest.mark.parametrize(
    ("log", "seconds"),
    [
        (f"{TOOK}0.25\n", 0.25),
        (f"a line\n{TOOK}1.5\n", 1.5),
        (f"{TOOK}1.5\nsomething else\n", None),
        (f"{TOOK}much\n", None),
        ("", None),
    ],
)
def test_what_imitates_a_task_says_how_long_it_did(
    log: str, seconds: float | None, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    assert imitated_s(str(path)) == seconds
    assert imitated_s(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    "order",
    [
        {"reads": ["a b", "\u00e9\U0001f600\n", "\udc80", '"\\'], "seconds": 1.5, "burns": True},
        {"reads": [], "seconds": 1e-9, "burns": False, "writes": {"x": 0, "y/z": 1 << 40}},
        {"none": None, "nested": {"": [[], {}, -1, 2.5e300]}},
    ],
)
def test_what_imitates_a_task_reads_json_as_everybody_does(order: dict[str, Any]) -> None:
    for text in (json.dumps(order), json.dumps(order, ensure_ascii=False, indent=1)):
        assert parsed(text) == json.loads(text) == order


def test_an_attempt_is_alone_while_no_other_is_out_of_hand() -> None:
    def attempt(sent_s: float, away_s: float) -> Attempt:
        outcome = Outcome(Result.DONE)
        return Attempt("t", 1, "n1", 0.0, sent_s, 0, 0, outcome, "", away_s=away_s)

    first, second, third = attempt(0.0, 1.0), attempt(1.0, 2.0), attempt(2.5, 0.1)
    assert alone_among([third, first, second]) == [first]
    assert alone_among([first, attempt(3.0, 1.0)]) == [first, attempt(3.0, 1.0)]
    # A long one covers those after the next one, too.
    assert alone_among([attempt(0.0, 9.0), attempt(1.0, 1.0), attempt(3.0, 1.0)]) == []
    assert alone_among([]) == []
