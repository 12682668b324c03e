"""Reads in what a test program printed how its tests ended: those of cargo and those of pytest."""

import re
from dataclasses import dataclass

# Lines of a failure that are printed once more at the end.
FAILURE_LINES = 40
CARGO_RESULT = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", re.M)
CARGO_FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED(?: <[\d.]+s>)?$", re.M)
# cargo names them once more, for output of other tests may stand between a name and its end.
CARGO_LIST = re.compile(r"^failures:\n((?:    \S+\n)+)", re.M)
PYTEST_RESULT = re.compile(r"(\d+) (passed|failed|skipped|errors?)")
PYTEST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py::.+?)(?: - .*)?$", re.M)
# Begins what is said of a program that did not end.
UNENDED = "what it waited for:"
# Of a test of Rust up to its calls, of one of Python from what failed on, and of what did not end.
FAILURE = re.compile(
    r"^---- .*? stdout ----$.*?(?=^stack backtrace:|^---- |^failures:|\Z)"
    r"|^E  .*?(?=^\S|\Z)|^FAILED .*?$"
    rf"|^{UNENDED}$.*\Z",
    re.M | re.S,
)


@dataclass
class Counts:
    """Tests by how they ended."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: "Counts") -> None:
        """Adds those of another program."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def counted(said: str) -> Counts:
    """Counts the tests of a program by what it printed."""
    counts = Counts()
    for passed, failed, ignored in CARGO_RESULT.findall(said):
        counts.add(Counts(int(passed), int(failed), int(ignored)))
    summaries = [line for line in said.splitlines() if re.search(r"\d+ \w+.* in [\d.]+s", line)]
    if not CARGO_RESULT.search(said) and summaries:
        by_kind = {kind.rstrip("s"): int(n) for n, kind in PYTEST_RESULT.findall(summaries[-1])}
        failed = by_kind.get("failed", 0) + by_kind.get("error", 0)
        counts.add(Counts(by_kind.get("passed", 0), failed, by_kind.get("skipped", 0)))
    return counts


def failed_tests(said: str) -> list[str]:
    """The tests of a program that failed, as the program takes them; none if it doesn't say."""
    listed = [name for part in CARGO_LIST.findall(said) for name in part.split()]
    named = listed or CARGO_FAILED.findall(said) or PYTEST_FAILED.findall(said)
    return list(dict.fromkeys(named))


def failures(said: str) -> list[str]:
    """What a program said of its failures, without the calls that led there."""
    found: list[str] = []
    for part in FAILURE.findall(said):
        lines = [line[:400] for line in part.splitlines() if line.strip()]
        found += lines[:FAILURE_LINES]
    return found
