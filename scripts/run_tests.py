#!/usr/bin/env python3
"""Runs every test, or those of some lanes, and ends with one line that counts them all.

Test programs run side by side, because most of them wait more than they compute; what took longest
last time begins first. Each prints what it said when it has ended.

Where real time decides, a test can fail for want of a processor. So those of up to eight programs
that failed beside others run once more by themselves, and are named at the end if they pass then.

    scripts/run_tests.py                 everything
    scripts/run_tests.py --lane fast     what needs no mount, no lab and no metadata servers
    scripts/run_tests.py --only history  programs with this in their name
"""

import argparse
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Condition, Thread
from typing import Any

import stuck
import test_times
from outcomes import UNENDED, Counts, counted, failed_tests, failures

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/test-logs"
LANES = ("fast", "python", "servers", "mount", "lab")
# Each program of this lane starts whole stores over several hosts, whose servers starve each other
# when there are too many. Most have one at a time; these have several, and run beside no other.
WITH_STORES = "lab"
STORES = 2
MANY_STORES = ("tests-lab-life_cycle",)
# What only computes does so with what the others leave of the processors: hosts and servers that
# wait for one miss their deadlines.
PATIENT_LANE = "python"
COMPILES = "rust-documentation"
PATIENTLY = ("nice", "-n", "15")
# Files of tests/workflows with a store over several hosts for all of their tests.
OVER_HOSTS = (
    "engines",
    "snakemake_faults",
    "dask_faults",
    "parsl_faults",
    "program_faults",
    "nextflow",
    "nextflow_faults",
    "run_hosts",
    "run_faults",
    "run_slurm",
    "oracle_lab",
    "advice_hosts",
)
# What python/tests is made of, by the first word of its files; the rest is one program.
SUBJECTS = ("characterise", "demo", "simulate", "trace")
# Where lanes with metadata servers keep what they write: their tests kill processes, not machines,
# and on the disk of a shared machine every sync of a server can wait for seconds, on all hosts of
# a lab at once.
MEMORY = Path("/dev/shm")
IN_MEMORY = ("servers", "lab")
MEMORY_BYTES = 4 << 30
# Libraries of linear algebra take all processors for every small matrix, and wait for them busily.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# What all of it may take, and what one program may.
BUDGET_S = 30 * 60
LIMIT_S = 20 * 60
# Where tests of more programs fail, of some 200, it is not for want of a processor.
AGAIN_AT_MOST = 8
# Their tests wait for servers and hosts: twice as many at once as there are processors.
WAITING = ("cluster-supervision", "tests-lab-life_cycle")
# Begun first as long as nobody knows how long they take here.
LONG = (
    "workflows-workflows",
    "workflows-pages",
    "workflows-engines",
    "python-characterise",
    "python-simulate",
    "meta-transactions",
    "tests-posix-promises",
    "tests-lab-silence",
    "cluster-supervision",
    "tests-history-history",
    "tests-lab-life_cycle",
)
LANE_OF_PACKAGE = {
    "crates/cluster": "servers",
    "crates/meta": "servers",
    "crates/cli": "mount",
    "crates/mount": "mount",
    "tests/posix": "mount",
    "tests/history": "mount",
    "crates/lab": "lab",
    "tests/lab": "lab",
}


@dataclass
class Program:
    """One test program: a binary of a crate, a run of pytest, or the examples of docstrings."""

    name: str
    lane: str
    command: list[str]
    directory: Path = ROOT
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def is_patient(self) -> bool:
        """Whether it has no deadlines."""
        return self.lane == PATIENT_LANE or self.name == COMPILES

    @property
    def stores(self) -> int:
        """How many stores over several hosts it has at once, of those that there may be."""
        if self.lane != WITH_STORES:
            return 0
        return STORES if self.name in MANY_STORES else 1

    def only(self, tests: list[str]) -> "Program":
        """The same program with just these of its tests, one after the other."""
        is_pytest = "pytest" in self.command
        command = [*self.command[:3], *tests] if is_pytest else [*self.command, "--exact", *tests]
        environment = self.environment | {"RUST_TEST_THREADS": "1"}
        return replace(self, name=f"{self.name}-again", command=command, environment=environment)

    @property
    def log(self) -> Path:
        """Where what it says is kept."""
        return LOGS / f"{self.name}.log"


@dataclass
class Ended:
    """What became of a program."""

    program: Program
    counts: Counts
    seconds: float
    trouble: str
    processor_s: float = 0.0
    # What failed beside others and passed alone, of what is counted as passed.
    passed_alone: list[str] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """Whether a test failed, or the program did."""
        return bool(self.trouble or self.counts.failed)


class Waiting:
    """The programs that wait, in order; handed out to several workers.

    Those that only compute have workers of their own.
    """

    def __init__(self, programs: list[Program]) -> None:
        self.programs = programs
        self.stores = 0
        self.changed = Condition()

    def take(self, is_patient: bool) -> Program | None:
        """The next one that may begin, once there is one; None when all have begun."""
        with self.changed:
            while mine := [p for p in self.programs if p.is_patient == is_patient]:
                for program in mine:
                    if self.stores + program.stores <= STORES:
                        self.programs.remove(program)
                        self.stores += program.stores
                        return program
                self.changed.wait()
            return None

    def end(self, program: Program) -> None:
        """Takes note that a program has ended."""
        with self.changed:
            self.stores -= program.stores
            self.changed.notify_all()


class Runner:
    """Runs programs, and ends those that still run when it is told to stop."""

    def __init__(self) -> None:
        self.running: set[subprocess.Popen[bytes]] = set()
        self.is_stopped = False

    def work(self, waiting: Waiting, results: "SimpleQueue[Ended]", is_patient: bool) -> None:
        """Runs what waits, one after the other."""
        while program := waiting.take(is_patient):
            ended = self.run(program)
            waiting.end(program)
            results.put(ended)

    def run(self, program: Program) -> Ended:
        """Runs a program to its end, or to its limit."""
        started = time.monotonic()
        trouble = ""
        with program.log.open("wb") as log:
            if self.is_stopped:
                return Ended(program, Counts(), 0, "was not begun")
            process = subprocess.Popen(
                [*(PATIENTLY if program.is_patient else ()), *program.command],
                cwd=program.directory,
                env=os.environ | program.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.running.add(process)
            if not has_ended(process, LIMIT_S):
                log.write(f"\n{UNENDED}\n{stuck.waits(process.pid)}\n".encode())
                log.flush()
                end_group(process)
                trouble = f"did not end within {LIMIT_S} s"
            processor_s = processor_seconds(process)
            status = process.wait()
            self.running.discard(process)
        counts = counted(program.log.read_text(errors="replace"))
        if status != 0 and not trouble and not counts.failed:
            trouble = f"ended with {status}"
        return Ended(program, counts, time.monotonic() - started, trouble, processor_s)

    def run_again(self, ended: Ended) -> None:
        """Runs the tests that failed once more, alone; counts them anew if all of them pass.

        A program that crashed or hung has no second run.
        """
        tests = failed_tests(ended.program.log.read_text(errors="replace"))
        if ended.trouble or len(tests) != ended.counts.failed or self.is_stopped:
            return
        again = self.run(ended.program.only(tests))
        print(again.program.log.read_text(errors="replace"), end="")
        print(f"=== again, alone: {again.program.name}: {again.counts}\n", flush=True)
        if not again.has_failed and again.counts.passed == len(tests):
            ended.counts.add(Counts(passed=len(tests), failed=-len(tests)))
            ended.passed_alone = tests

    def stop(self) -> None:
        """Ends what runs."""
        self.is_stopped = True
        for process in list(self.running):
            end_group(process)


def has_ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Waits until a program ends, and leaves it to be waited for."""
    end = os.pidfd_open(process.pid)
    try:
        return bool(select.select([end], [], [], limit_s)[0])
    finally:
        os.close(end)


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """What a program that has ended took of processors, with those that it waited for."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # In user mode and in the kernel, and the same of its children (proc(5), after the name).
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a program and what it started: asked first, so that it can clean up.

    pytest cleans up only after SIGINT.
    """
    for sign, patience_s in ((signal.SIGINT, 30), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
            process.wait(patience_s)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
        return


def built() -> list[dict[str, Any]]:
    """Builds the test programs and the commands they start; returns what cargo says of each.

    A `cargo build` before would compile most crates twice: tests ask libraries for more features.
    """
    command = ["cargo", "test", "--workspace", "--locked", "--no-run"]
    text = [*command, "--message-format", "json-render-diagnostics"]
    output = subprocess.run(text, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    messages = map(json.loads, output.splitlines())
    return [m for m in messages if m.get("executable") and m.get("profile", {}).get("test")]


def binaries() -> list[Program]:
    """The test programs of all crates."""
    programs = []
    for artifact in built():
        package = Path(artifact["manifest_path"]).parent
        place = str(package.relative_to(ROOT))
        name = f"{place.removeprefix('crates/').replace('/', '-')}-{artifact['target']['name']}"
        if not artifact["target"]["kind"][0].startswith("test"):
            name += "-unit"
        lane = LANE_OF_PACKAGE.get(place, "fast")
        environment = {"CARGO_MANIFEST_DIR": str(package), **test_times.REPORT_ENVIRONMENT}
        if name in WAITING:
            environment["RUST_TEST_THREADS"] = str(2 * (os.cpu_count() or 1))
        command = [artifact["executable"], *test_times.REPORT]
        programs.append(Program(name, lane, command, package, environment))
    return programs


def in_python() -> list[Program]:
    """The tests in Python: each file of tests/workflows, and each subject of python/tests."""
    files: dict[tuple[str, str], list[str]] = {}
    for path in sorted(ROOT.glob("tests/workflows/test_*.py")):
        name = path.stem.removeprefix("test_")
        files["lab" if name in OVER_HOSTS else "mount", f"workflows-{name}"] = [str(path)]
    for path in sorted(ROOT.glob("python/tests/test_*.py")):
        subject = path.stem.split("_")[1]
        name = subject if subject in SUBJECTS else "tests"
        files.setdefault(("python", f"python-{name}"), []).append(str(path))
    command = [sys.executable, "-m", "pytest", *test_times.PYTEST_REPORT]
    return [Program(name, lane, [*command, *these]) for (lane, name), these in files.items()]


def others() -> list[Program]:
    """The tests that are no programs of crates."""
    examples = ["cargo", "test", "--workspace", "--locked", "--doc"]
    return [*in_python(), Program(COMPILES, "fast", examples)]


def in_order(programs: Iterable[Program]) -> list[Program]:
    """What takes longest first, so that nothing long is left at the end."""
    known = test_times.known("programs")

    def expected_s(program: Program) -> float:
        return known.get(program.name, 1e6 if program.name in LONG else 1e3)

    return sorted(programs, key=expected_s, reverse=True)


def show(ended: Ended, done: int, of: int) -> None:
    """Prints what a program said."""
    print(ended.program.log.read_text(errors="replace"), end="")
    trouble = f"; {ended.trouble}" if ended.trouble else ""
    name = ended.program.name
    took = f"{ended.seconds:.0f} s, {ended.processor_s:.0f} s of a processor"
    print(f"=== {done}/{of} {name}: {ended.counts}, {took}{trouble}\n", flush=True)


def report(results: list[Ended], took_s: float) -> bool:
    """Prints the counts, and whether all is well."""
    total = Counts()
    for ended in results:
        total.add(ended.counts)
    lanes = [(ended.program.lane, ended.seconds, ended.processor_s) for ended in results]
    print("\n".join(test_times.told(lanes, times_of_tests(results))))
    print(f"all of it took {took_s:.0f} s of {BUDGET_S} s")
    if took_s > BUDGET_S:
        print("this is over the budget")
    if total.skipped:
        print(f"{total.skipped} skipped: the reasons are above")
    for ended in results:
        if ended.has_failed or ended.passed_alone:
            print("\n".join(failures(ended.program.log.read_text(errors="replace"))))
        if ended.has_failed:
            print(f"failed: {ended.program.name} {ended.trouble}".rstrip())
            # One that ended before it counted is a failure of its own.
            total.failed += not ended.counts.failed
        for test in ended.passed_alone:
            print(f"failed beside others, and passed alone: {ended.program.name} {test}")
    print(f"{total.passed} passed, {total.failed} failed")
    return not total.failed and bool(results)


def times_of_tests(results: list[Ended]) -> dict[str, float]:
    """How long each test took, in seconds."""
    times: dict[str, float] = {}
    for ended in results:
        said = ended.program.log.read_text(errors="replace")
        times |= test_times.of_tests(ended.program.name, said)
    return times


@contextmanager
def servers_in_memory(programs: list[Program]) -> Iterator[None]:
    """Gives lanes with metadata servers a directory in memory, where there is room for one."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        yield
        return
    # A short name, as that of a socket may have 108 bytes; tests run programs as other users too.
    # A test that failed may have left a mount in it.
    with TemporaryDirectory(prefix="t", dir=MEMORY, ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o1777)
        for program in programs:
            if program.lane in IN_MEMORY:
                program.environment["TMPDIR"] = directory
        yield


def chosen(arguments: argparse.Namespace) -> list[Program]:
    """The programs that the user means."""
    lanes = arguments.lane or LANES
    only = arguments.only or [""]
    programs = [*binaries(), *others()]
    return [p for p in programs if p.lane in lanes and any(part in p.name for part in only)]


def main() -> int:
    """Runs them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--lane", action="append", choices=LANES, help="this lane; may be repeated")
    parser.add_argument(
        "--only", action="append", metavar="PART", help="programs with this in their name"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=2 * (os.cpu_count() or 1),
        help="so many programs at once, and a quarter more that only compute",
    )
    parser.add_argument(
        "--once", action="store_true", help="give no test that failed a second run, alone"
    )
    parser.add_argument("--list", action="store_true", help="print the programs and run none")
    arguments = parser.parse_args()
    programs = in_order(chosen(arguments))
    if arguments.list:
        print("\n".join(f"{program.lane:8} {program.name}" for program in programs))
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    for log in LOGS.glob("*.log"):
        log.unlink()
    os.environ["INTARSIA_BIN"] = str(ROOT / "target/debug/intarsia")
    os.environ.update(ONE_THREAD)
    # Beside all other tests a host takes its time to come up.
    os.environ.setdefault("INTARSIA_WAIT", "60s")
    # What was built reaches the disk first: else servers of tests wait for it, for seconds.
    os.sync()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with servers_in_memory(programs):
        return run_all(programs, arguments.jobs, not arguments.once)


def run_all(programs: list[Program], jobs: int, may_run_again: bool) -> int:
    """Runs programs, some at once, and reports; returns the exit status."""
    runner, started = Runner(), time.monotonic()
    results: list[Ended] = []
    count, waiting, ended = len(programs), Waiting(programs), SimpleQueue[Ended]()
    kinds = [False] * jobs + [True] * max(1, jobs // 4)
    workers = [Thread(target=runner.work, args=(waiting, ended, kind)) for kind in kinds]
    for worker in workers:
        worker.start()
    try:
        while len(results) < count:
            results.append(ended.get())
            show(results[-1], len(results), count)
    except KeyboardInterrupt:
        runner.stop()
        print("stopped", file=sys.stderr)
    for worker in workers:
        worker.join()
    programs_s = {ended.program.name: round(ended.seconds, 1) for ended in results}
    test_times.keep(programs_s, times_of_tests(results))
    failed = [ended for ended in results if ended.has_failed]
    if may_run_again and len(failed) <= AGAIN_AT_MOST:
        for program in failed:
            runner.run_again(program)
    is_well = report(results, time.monotonic() - started)
    return 0 if is_well and not runner.is_stopped else 1


if __name__ == "__main__":
    sys.exit(main())
