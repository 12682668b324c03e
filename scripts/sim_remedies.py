#!/usr/bin/env python3
"""Takes remedies back one at a time, and looks whether the simulated cluster finds the fault.

Each file of tests/sim/remedies is a patch that takes one remedy back, and says which. The tree is
copied to target/remedies, patched and built there, and seeds run until one fails that passes with
the remedy. Nothing outside of target/remedies is touched.

    scripts/sim_remedies.py                            all of them, up to 100 seeds each
    scripts/sim_remedies.py --only power-loss-copies   one of them
    scripts/sim_remedies.py --list                     what there is

Ends with 0 if each fault was found, 1 if one was not, 2 if a patch does not apply or build.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests/sim/remedies"
WORK = ROOT / "target/remedies"
TREE = WORK / "tree"
BUILD = WORK / "build"
# The program with all remedies.
WHOLE = WORK / "sim-whole"
# What is patched is built again and again, and most of a run is waiting for turns.
BUILD_COMMAND = [
    *("cargo", "build", "--locked", "--workspace", "--profile", "sim", "--bin", "sim"),
    *("--config", "profile.sim.incremental=true", "--config", "profile.sim.debug=0"),
    *("--config", "profile.sim.package.intarsia-node.opt-level=0"),
]
# Seeds between two looks at the clock.
AT_ONCE = 10
# Characters of what a seed says that the table has.
SAID_MAX = 160


class BrokenError(Exception):
    """Nothing can be said of a remedy, and why."""


@dataclass(frozen=True)
class Remedy:
    """A remedy that can be taken back."""

    name: str
    fault: str
    commits: str
    test: str
    patch: Path


@dataclass
class Search:
    """What came of the seeds that ran without a remedy."""

    name: str
    fault: str
    commits: str
    test: str
    first_seed: int
    seeds: int = 0
    found_seed: int | None = None
    said: str = ""
    # Seeds that fail with the remedy too, which show nothing.
    fail_anyway: list[int] | None = None
    wall_s: float = 0.0
    ended: str = "limit of seeds"


def read_remedies(directory: Path = PATCHES) -> list[Remedy]:
    """All remedies, by name.

    Raises `BrokenError` for a patch without one of the lines Fault, Remedy and Test before it.
    """
    remedies = []
    for patch in sorted(directory.glob("*.patch")):
        fields = dict(header(patch.read_text()))
        missing = [key for key in ("Fault", "Remedy", "Test") if not fields.get(key)]
        if missing:
            raise BrokenError(f"{patch}: it does not begin with the line '{missing[0]}: …'")
        remedies.append(
            Remedy(patch.stem, fields["Fault"], fields["Remedy"], fields["Test"], patch)
        )
    return remedies


def header(text: str) -> Iterator[tuple[str, str]]:
    """The lines `key: value` before a patch."""
    for line in text.splitlines():
        if line.startswith("diff --git"):
            return
        key, colon, value = line.partition(": ")
        if colon:
            yield key, value.strip()


def chosen(remedies: list[Remedy], names: list[str]) -> list[Remedy]:
    """Those of the given names, or all; raises `BrokenError` for a name that there is not."""
    known = {remedy.name: remedy for remedy in remedies}
    for name in names:
        if name not in known:
            raise BrokenError(f"no remedy '{name}': choose from {', '.join(known)}")
    return [known[name] for name in names] or remedies


def copy_tree() -> None:
    """Makes `TREE` what the files of the repository are now.

    A file that is the same already keeps its time, so that only what changes is built anew.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for path in list(TREE.rglob("*")):
        if path.is_file() and str(path.relative_to(TREE)) not in wanted:
            path.unlink()
    for name in wanted:
        source, target = ROOT / name, TREE / name
        content = source.read_bytes()
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def apply(patch: Path) -> None:
    """Takes a remedy out of `TREE`; raises `BrokenError` if the patch does not know it there."""
    # Else git takes the paths for those of the repository around it.
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(WORK)}
    done = subprocess.run(
        ["git", "apply", str(patch)], cwd=TREE, env=env, capture_output=True, text=True
    )
    if done.returncode:
        raise BrokenError(
            f"{patch.relative_to(ROOT)} does not apply any more; make it anew:\n{done.stderr}"
        )


def build(into: Path) -> None:
    """Builds the simulator of `TREE`; raises `BrokenError` with what the compiler says."""
    env = os.environ | {"CARGO_TARGET_DIR": str(BUILD)}
    done = subprocess.run(BUILD_COMMAND, cwd=TREE, env=env, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise BrokenError(f"it does not build:\n{done.stderr[-4000:]}")
    shutil.copy2(BUILD / "sim/sim", into)


def run_seeds(program: Path, first: int, count: int, jobs: int) -> dict[str, Any]:
    """Runs seeds until one fails: what the simulator says of them."""
    command = [str(program), "--json", "--until-failure", "--jobs", str(jobs)]
    command += ["--from", str(first), "--seeds", str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise BrokenError(f"the simulator ends with {done.returncode}: {done.stderr[-1000:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def search(remedy: Remedy, program: Path, options: argparse.Namespace) -> Search:
    """Runs seeds without a remedy until one fails that passes with it."""
    begun = time.monotonic()
    result = Search(
        remedy.name, remedy.fault, remedy.commits, remedy.test, options.first, fail_anyway=[]
    )
    seed, end = options.first, options.first + options.seeds
    while seed < end and result.found_seed is None:
        result.wall_s = round(time.monotonic() - begun, 1)
        if result.wall_s > options.minutes * 60:
            result.ended = "limit of time"
            break
        count = min(AT_ONCE, end - seed)
        said = run_seeds(program, seed, count, options.jobs)
        failed = {int(number): what for number, what in said["failed"].items()}
        result.seeds += said["seeds"]
        seed += said["seeds"]
        for number, what in sorted(failed.items()):
            if run_seeds(WHOLE, number, 1, 1)["failed"]:
                result.fail_anyway = [*(result.fail_anyway or []), number]
            elif result.found_seed is None:
                result.found_seed, result.said, result.ended = number, what[0], "found"
        print(f"  {result.seeds} seeds", file=sys.stderr, flush=True)
    result.wall_s = round(time.monotonic() - begun, 1)
    return result


def table(results: list[Search]) -> str:
    """The results, one a line."""
    width = max((len(result.name) for result in results), default=0)
    lines = [f"{'remedy taken back':{width}}  found  seeds   seed    min  what it says"]
    for result in results:
        found = "no" if result.found_seed is None else "yes"
        seed = "-" if result.found_seed is None else str(result.found_seed)
        said = result.said.splitlines()[0][:SAID_MAX] if result.said else f"({result.ended})"
        minutes = result.wall_s / 60
        lines.append(
            f"{result.name:{width}}  {found:5}  {result.seeds:5}  {seed:>5}  {minutes:5.1f}  {said}"
        )
    return "\n".join(lines)


def run(options: argparse.Namespace) -> int:
    """Does what was asked for; the exit status."""
    remedies = chosen(read_remedies(), options.only)
    if options.list:
        for remedy in remedies:
            print(f"{remedy.name}: {remedy.fault} ({remedy.commits}; {remedy.test})")
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    print("building with all remedies", file=sys.stderr, flush=True)
    copy_tree()
    build(WHOLE)
    results = []
    for remedy in remedies:
        print(f"{remedy.name}: building without it", file=sys.stderr, flush=True)
        copy_tree()
        apply(remedy.patch)
        program = WORK / f"sim-without-{remedy.name}"
        build(program)
        results.append(search(remedy, program, options))
        print(table(results[-1:]), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print(table(results))
    return int(any(result.found_seed is None for result in results))


def main() -> int:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this remedy (may be repeated)"
    )
    parser.add_argument("--seeds", type=int, default=100, help="seeds for each at most")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--minutes", type=float, default=30, help="minutes for each at most")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="runs at the same time"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array, not a table")
    parser.add_argument("--list", action="store_true", help="print the remedies and run nothing")
    try:
        return run(parser.parse_args())
    except BrokenError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
