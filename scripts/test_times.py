"""How long tests take, by lane and by test: kept from run to run, and printed at the end of one."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "build/test-times.json"
# Seconds of a processor that the programs of a lane may take: half as much again as in November
# 2026. What a lane waits is no part of it, nor what else the machine does.
BUDGETS_S = {"fast": 180, "python": 240, "servers": 170, "mount": 450, "lab": 310}
# Tests that are named at the end.
SLOWEST = 10
# Has the tests of Rust say how long they took; a stable compiler's tests ask for the variable.
REPORT = ("-Z", "unstable-options", "--report-time")
REPORT_ENVIRONMENT = {"RUSTC_BOOTSTRAP": "1"}
PYTEST_REPORT = ("--durations=10", "--durations-min=1")
CARGO_TIME = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (?:ok|FAILED) <([\d.]+)s>$", re.M)
PYTEST_TIME = re.compile(r"^([\d.]+)s (?:call|setup) +(\S+?\.py::.+)$", re.M)


def known(what: str) -> dict[str, float]:
    """How long each of the `programs` or `tests` took when it ran here last, in seconds."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    found: dict[str, float] = kept.get(what, {})
    return found


def of_tests(program: str, said: str) -> dict[str, float]:
    """Seconds that each test of a program took, by what it printed."""
    times: dict[str, float] = defaultdict(float)
    for name, seconds in CARGO_TIME.findall(said):
        times[f"{program}: {name}"] += float(seconds)
    for seconds, name in PYTEST_TIME.findall(said):
        times[name] += float(seconds)
    return dict(times)


def keep(programs: dict[str, float], tests: dict[str, float]) -> None:
    """Notes the times of a run, for the order of the next one and for whoever looks."""
    both = {"programs": known("programs") | programs, "tests": known("tests") | tests}
    FILE.write_text(json.dumps(both, indent=1, sort_keys=True) + "\n")


def told(lanes: Iterable[tuple[str, float, float]], tests: dict[str, float]) -> list[str]:
    """Lines that say what each lane took, of what it may, and which tests took longest.

    `lanes`: of each program its lane, its seconds, and those of a processor.
    """
    all_s: dict[str, float] = defaultdict(float)
    processor_s: dict[str, float] = defaultdict(float)
    for lane, seconds, of_processor_s in lanes:
        all_s[lane] += seconds
        processor_s[lane] += of_processor_s
    longest = sorted(all_s.items(), key=lambda lane: -lane[1])
    lines = [f"programs by lane: {', '.join(f'{lane} {s:.0f} s' for lane, s in longest)}"]
    for lane, budget_s in BUDGETS_S.items():
        if lane in processor_s:
            over = ": over its budget" if processor_s[lane] > budget_s else ""
            lines.append(f"processor, {lane}: {processor_s[lane]:.0f} s of {budget_s} s{over}")
    slowest = sorted(tests.items(), key=lambda test: -test[1])[:SLOWEST]
    lines += [f"longest: {seconds:.0f} s {name}" for name, seconds in slowest]
    return lines
