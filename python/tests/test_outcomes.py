"""What the runner of all tests reads in what a test program printed, and what it runs again."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

import pytest
import run_tests
import test_times
from outcomes import Counts, counted, failed_tests, failures
from run_tests import Ended, Program, Runner

CARGO = """
running 3 tests
test answers::late ... ok
noise test half::said ...
test answers::never ... FAILED
test other ... FAILED <1.250s>

failures:

---- answers::never stdout ----
thread 'answers::never' panicked at src/lib.rs:1:1:
it never came
stack backtrace:
   0: std::panicking

---- other stdout ----
thread 'other' panicked at src/lib.rs:2:1:
no

failures:
    answers::never
    other

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
"""
PYTEST = """
E   AssertionError: 1 != 2
tests/workflows/test_a.py:9: AssertionError
=========================== short test summary info ============================
FAILED tests/workflows/test_a.py::test_one[mixed - a] - AssertionError: 1 != 2
ERROR tests/workflows/test_a.py::test_two - OSError: no - such file
=============== 1 failed, 4 passed, 1 skipped, 1 error in 3.21s ================
"""


def test_outcomes_of_cargo_are_counted_and_named() -> None:
    assert counted(CARGO) == Counts(passed=1, failed=2)
    assert failed_tests(CARGO) == ["answers::never", "other"]
    assert "it never came" in failures(CARGO)
    assert not any("backtrace" in line for line in failures(CARGO))


def test_times_of_tests_are_read_and_the_longest_are_told() -> None:
    assert test_times.of_tests("a", CARGO) == {"a: other": 1.25}
    said = "2.50s call     tests/a.py::one[x y]\n1.00s setup    tests/a.py::one[x y]\n"
    times = test_times.of_tests("b", said)
    assert times == {"tests/a.py::one[x y]": 3.5}
    lines = test_times.told([("lab", 9.0, 400.0), ("lab", 1.0, 1.0), ("fast", 2.0, 1.0)], times)
    assert lines[0] == "programs by lane: lab 10 s, fast 2 s"
    assert lines[1:3] == [
        "processor, fast: 1 s of 180 s",
        "processor, lab: 401 s of 310 s: over its budget",
    ]
    assert lines[3] == "longest: 4 s tests/a.py::one[x y]"


def test_outcomes_of_pytest_are_counted_and_named() -> None:
    assert counted(PYTEST) == Counts(passed=4, failed=2, skipped=1)
    names = failed_tests(PYTEST)
    assert names[1] == "tests/workflows/test_a.py::test_two"
    assert names[0].startswith("tests/workflows/test_a.py::test_one[mixed")


def test_what_ended_before_it_counted_names_nothing() -> None:
    assert failed_tests("thread panicked\n") == []
    assert counted("Aborted\n") == Counts()


# Fails as long as its mark is not there, and leaves one.
FAILS_ONCE = """
from pathlib import Path
MARK = Path(__file__).with_suffix(".mark")
def test_steady(): pass
def test_late():
    was = MARK.exists()
    MARK.touch()
    assert was
def test_broken(): assert {broken}
"""


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps what these programs say apart from what those of a whole run have said."""
    monkeypatch.setattr(run_tests, "LOGS", tmp_path)


def ended_of(directory: Path, source: str) -> Ended:
    """What becomes of a program with these tests, a second run included."""
    file = directory / "test_program.py"
    file.write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(file)]
    runner = Runner()
    ended = runner.run(Program("program", "fast", command, directory))
    runner.run_again(ended)
    return ended


def test_what_passes_alone_is_counted_and_named(tmp_path: Path) -> None:
    ended = ended_of(tmp_path, FAILS_ONCE.format(broken=True))
    assert (ended.counts, ended.has_failed) == (Counts(passed=3), False)
    assert [name.rpartition("::")[2] for name in ended.passed_alone] == ["test_late"]


def test_what_fails_again_stays_failed(tmp_path: Path) -> None:
    ended = ended_of(tmp_path, FAILS_ONCE.format(broken=False))
    assert (ended.counts, ended.has_failed) == (Counts(passed=1, failed=2), True)
    assert not ended.passed_alone


def test_a_program_that_crashed_is_not_run_again(tmp_path: Path) -> None:
    ended = ended_of(tmp_path, "import os\nos._exit(3)\n")
    assert ended.trouble == "ended with 3"
    assert not ended.passed_alone


def test_what_did_not_end_tells_what_it_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By then pytest has begun the test, on a busy machine as well.
    monkeypatch.setattr(run_tests, "LIMIT_S", 15.0)
    source = "import subprocess\ndef test_long(): subprocess.run(['sleep', '60'])\n"
    ended = ended_of(tmp_path, source)
    assert ended.trouble.startswith("did not end")
    told = failures(ended.program.log.read_text())
    assert any(line.endswith(": sleep 60") for line in told)
    assert any(line.startswith("    sleep: ") for line in told)
