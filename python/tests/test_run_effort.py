"""How long an engine was at work, by clocks that a test sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from intarsia.run.effort import Effort
from intarsia.run.imitate import TOOK, imitated_s


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
