"""The checkpoint simulator against a model in SimPy, inside the intervals that both print."""

from dataclasses import replace
from pathlib import Path

import pytest
from independent import HOUR, Case, Level, efficiency, scenario
from intarsia import simulate
from simulator import real_binary

MINUTE = 60.0


@pytest.fixture(autouse=True)
def binary(monkeypatch: pytest.MonkeyPatch) -> Path:
    path = real_binary()
    monkeypatch.setenv("INTARSIA_BIN", str(path))
    return path


# Two intervals in three pass before a transfer is done.
OVERLAPPING = Case(
    levels=[Level("lower", MINUTE, restore=2 * MINUTE, flush=45 * MINUTE, slowdown=0.2)],
    interval=20 * MINUTE,
    mtbf=6 * HOUR,
    reboot=5 * MINUTE,
)
LOCAL_FIRST = Case(
    levels=[
        Level("local", 30, restore=30),
        Level("lower", 45, restore=5 * MINUTE, every=3, flush=12 * MINUTE, slowdown=0.3),
    ],
    interval=10 * MINUTE,
    mtbf=4 * HOUR,
    process=0.4,
    reboot_share=0.3,
    reboot=5 * MINUTE,
)
REPAIRED = Case(
    levels=[Level("local", MINUTE), Level("lower", 4 * MINUTE, restore=MINUTE, every=4)],
    interval=30 * MINUTE,
    mtbf=10 * HOUR,
    repair=6 * HOUR,
    reboot=5 * MINUTE,
    horizon=1600 * 86_400,
)
# Six jobs write, and after a failure read, 3 minutes alone in 20 minutes of work.
SIX_JOBS = Case(
    levels=[Level("lower", 3 * MINUTE, restore=3 * MINUTE, shared=True)],
    interval=20 * MINUTE,
    mtbf=5 * HOUR,
    reboot=2 * MINUTE,
    horizon=15 * 86_400,
    jobs=6,
)
# A flush is under way when every third checkpoint is written past the buffer.
FLUSH_AND_WRITE = Case(
    levels=[
        Level("lower", 30, restore=MINUTE, flush=9 * MINUTE, slowdown=0.2, shared=True),
        Level("lower", 4 * MINUTE, restore=4 * MINUTE, every=3, shared=True),
    ],
    interval=12 * MINUTE,
    mtbf=5 * HOUR,
    reboot=2 * MINUTE,
    overlap="skip",
    horizon=60 * 86_400,
)
CASES = {
    "flushes that overlap wait": OVERLAPPING,
    "flushes that overlap queue": replace(OVERLAPPING, overlap="queue"),
    "flushes that overlap are skipped": replace(OVERLAPPING, overlap="skip"),
    "local first, then flushed": LOCAL_FIRST,
    "local first, errors verified": replace(LOCAL_FIRST, verification=20, error_mtbe=8 * HOUR),
    "every failure is repaired": REPAIRED,
    "processes restart at once": replace(REPAIRED, process=0.3),
    "spares": replace(REPAIRED, process=0.2, spares=1),
    "six jobs share a file system": SIX_JOBS,
    "levels of one job share it": FLUSH_AND_WRITE,
    "levels of three jobs share it": replace(FLUSH_AND_WRITE, jobs=3, horizon=25 * 86_400),
    "flushes that share it wait": replace(
        FLUSH_AND_WRITE, jobs=2, overlap="wait", horizon=30 * 86_400
    ),
    "a spare has no local checkpoint": replace(REPAIRED, reboot_share=0.9, spares=3),
}


@pytest.mark.parametrize("name", CASES)
def test_the_efficiency_is_that_of_an_independent_model(name: str) -> None:
    case = CASES[name]
    theirs = efficiency(case)
    ours = simulate.checkpoint(scenario(case))["efficiency"]
    difference = 100 * ours.mean - theirs.mean
    assert ours.half_width is not None
    width = 100 * ours.half_width + theirs.half_width
    print(f"{name}: ours {100 * ours.mean:.2f} ± {100 * ours.half_width:.2f}, {theirs}")
    assert abs(difference) <= width
    # An interval that holds everything shows nothing.
    assert width < 1.5
