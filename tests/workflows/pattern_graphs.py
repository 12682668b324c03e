"""The seven patterns in which workflows use files, as graphs of commands that stop halfway.

Each graph has tasks that have read or written one half of a file and then wait for `go`, so that a
fault can be brought about in the middle. What is made follows from the sources alone.
"""

from __future__ import annotations

import random
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Tasks = dict[str, dict[str, object]]

#: How many tasks do the same beside each other.
WIDTH = 4
#: Above what stands beside its inode; its half is one block of `dd`.
PART_BYTES = 2 << 20
_HALF = f"bs={PART_BYTES // 2} count=1 iflag=fullblock status=none"
_EACH = range(1, WIDTH + 1)
_SEEDS = [f"seed-{number}" for number in _EACH]
_ALL = " ".join(_SEEDS)


@dataclass
class Story:
    """A graph, of which `halting` tasks wait in the middle.

    A fault is for the host that holds `held`.
    """

    halting: int
    held: str
    #: What nobody reads, and must be right at the end.
    results: list[str]
    #: Sources that tasks write to: what is lost of them nobody can make again.
    filled: dict[str, dict[str, str]] = field(default_factory=dict)
    tasks: Tasks = field(default_factory=dict)

    def task(self, name: str, command: str, inputs: list[str], outputs: list[str]) -> None:
        """Add a task, of which every part must end well: /bin/sh looks at the last of a pipe."""
        strict = f"bash -e -o pipefail -c {shlex.quote(command)}"
        self.tasks[name] = {"command": strict, "inputs": inputs, "outputs": outputs}

    def hint(self, name: str, hints: Mapping[str, str]) -> None:
        """Say what the files of a task will be used for."""
        self.tasks[name]["hints"] = dict(hints)


class Gate:
    """Where tasks wait, outside of every store: each says that it is there, and on which host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.go = directory / "go"

    def wait(self, name: str) -> str:
        """Words of the shell that wait."""
        at = shlex.quote(str(self.directory / f"at-{name}"))
        go = shlex.quote(str(self.go))
        return f'echo "$INTARSIA_LAB_NODE" > {at}; while [ ! -e {go} ]; do sleep 0.05; done >&2'

    def hosts(self) -> list[str]:
        """The hosts of the tasks that are there; one for each."""
        found = sorted(self.directory.glob("at-*"))
        return [host for at in found if (host := at.read_text().strip())]


def pipeline(gate: Gate) -> Story:
    """Chains of three tasks."""
    story = Story(WIDTH, "0-3", [f"end-{k}" for k in _EACH])
    for k in _EACH:
        story.task(f"first-{k}", f"tr a-f b-g < seed-{k} > 0-{k}", [f"seed-{k}"], [f"0-{k}"])
        halted = f"{{ dd {_HALF}; {gate.wait(f'p{k}')}; cat; }} < 0-{k} | tr b-g c-h > 1-{k}"
        story.task(f"second-{k}", halted, [f"0-{k}"], [f"1-{k}"])
        story.task(f"third-{k}", f"tr c-h d-i < 1-{k} > end-{k}", [f"1-{k}"], [f"end-{k}"])
    return story


def broadcast(gate: Gate) -> Story:
    """Many tasks read one file whole."""
    story = _read_by_all(gate, "table", "b")
    story.hint("make-table", {"pattern": "broadcast"})
    return story


def reduce(gate: Gate) -> Story:
    """One task reads what many have made."""
    parts = [f"part-{k}" for k in _EACH]
    story = Story(1, "part-2", ["reduced"])
    for k in _EACH:
        story.task(f"make-{k}", f"tr a-f b-g < seed-{k} > part-{k}", [f"seed-{k}"], [f"part-{k}"])
    halted = f"{{ dd {_HALF}; {gate.wait('r')}; cat - {' '.join(parts[1:])}; }} < {parts[0]}"
    story.task("reduce", f"{halted} | cksum > reduced", parts, ["reduced"])
    return story


def scatter(gate: Gate) -> Story:
    """Each task reads a region of one file."""
    story = Story(WIDTH, "matrix", [f"region-{k}" for k in _EACH])
    story.task("make-matrix", f"cat {_ALL} > matrix", _SEEDS, ["matrix"])
    story.hint("make-matrix", {"place": f"scatter:{PART_BYTES}"})
    for k in _EACH:
        first = f"dd {_HALF} skip={2 * (k - 1)}"
        halted = f"{{ {first}; {gate.wait(f's{k}')}; dd {_HALF}; }} < matrix | cksum > region-{k}"
        story.task(f"take-{k}", halted, ["matrix"], [f"region-{k}"])
    return story


def gather(gate: Gate) -> Story:
    """Many tasks each write a region of one file, which is there before, for one reader."""
    wrote = [f"wrote-{k}" for k in _EACH]
    hints = {"pattern": "gather", "chunk": str(PART_BYTES)}
    story = Story(WIDTH, "image", ["gathered"], {"image": hints})
    for k in _EACH:
        to = f"dd {_HALF} of=image conv=notrunc"
        wait = f"{{ {gate.wait(f'g{k}')}; }}"
        both = f"{to} seek={2 * (k - 1)} && {wait} && {to} seek={2 * k - 1}"
        command = f"{{ {both}; }} < seed-{k} && echo > wrote-{k}"
        story.task(f"fill-{k}", command, [f"seed-{k}", "image"], [f"wrote-{k}"])
    story.task("sum", "cksum < image > gathered", ["image", *wrote], ["gathered"])
    return story


def reuse(gate: Gate) -> Story:
    """Tasks read a file that others have read before."""
    story = _read_by_all(gate, "set", "u")
    story.hint("make-set", {"pattern": "reuse"})
    for k in _EACH:
        story.results.append(f"again-{k}")
        story.task(f"again-{k}", f"cksum < set > again-{k}", ["set"], [f"again-{k}"])
        story.tasks[f"again-{k}"]["after"] = [f"read-u{k}"]
    return story


def distribute(gate: Gate) -> Story:
    """One task makes a file for each of many."""
    pieces = [f"piece-{k}" for k in _EACH]
    story = Story(WIDTH, "piece-2", [f"got-{k}" for k in _EACH])
    split = "; ".join(f"tr a-f b-g < seed-{k} > piece-{k}" for k in _EACH)
    story.task("deal", split, _SEEDS, pieces)
    story.hint("deal", {"pattern": "distribute"})
    for k in _EACH:
        halted = f"{{ dd {_HALF}; {gate.wait(f'd{k}')}; cat; }} < piece-{k} | cksum > got-{k}"
        story.task(f"get-{k}", halted, [f"piece-{k}"], [f"got-{k}"])
    return story


PATTERNS: dict[str, Callable[[Gate], Story]] = {
    one.__name__: one for one in (pipeline, broadcast, reduce, scatter, gather, reuse, distribute)
}


def mixed(gate: Gate) -> Story:
    """All that tasks can make again in one workflow, and results that are there before the gate."""
    story = Story(WIDTH, "0-3", [f"early-{k}" for k in _EACH])
    for k in _EACH:
        story.task(f"early-{k}", f"cat seed-{k} > early-{k}", [f"seed-{k}"], [f"early-{k}"])
    for name, pattern in PATTERNS.items():
        part = pattern(gate)
        if part.filled:
            continue
        for task, said in part.tasks.items():
            story.tasks[f"{name}-{task}"] = said
        for said in part.tasks.values():
            if "after" in said:
                said["after"] = [f"{name}-{task}" for task in said["after"]]  # type: ignore[attr-defined]
        story.results += part.results
    return story


def _read_by_all(gate: Gate, file: str, short: str) -> Story:
    story = Story(WIDTH, file, [f"out-{short}{k}" for k in _EACH])
    story.task(f"make-{file}", f"cat {_ALL} > {file}", _SEEDS, [file])
    for k in _EACH:
        name = f"{short}{k}"
        halted = f"{{ dd {_HALF}; {gate.wait(name)}; cat; }} < {file} | cksum > out-{name}"
        story.task(f"read-{name}", halted, [file], [f"out-{name}"])
    return story


def write_sources(directories: list[Path], story: Story) -> None:
    """Write the sources of a story: of the seeds each in the directory of its number."""
    chance = random.Random(18)
    for number, name in enumerate(_SEEDS):
        text = chance.randbytes(PART_BYTES // 2).hex()
        (directories[number % len(directories)] / name).write_text(text)
    for name in story.filled:
        (directories[0] / name).touch()


def expected(story: Story, directory: Path) -> dict[str, bytes]:
    """What the results must be, without any store or engine."""
    write_sources([directory], story)
    do_in_turn(story.tasks, directory)
    return {name: (directory / name).read_bytes() for name in story.results}


def do_in_turn(tasks: Tasks, directory: Path) -> None:
    """Run the commands one after the other."""
    left = dict(tasks)
    while left:
        ready = [name for name, task in left.items() if _is_ready(task, left, directory)]
        assert ready, f"none of {', '.join(left)} can begin"
        for name in ready:
            command = str(left.pop(name)["command"])
            subprocess.run(["/bin/sh", "-c", command], cwd=directory, check=True, timeout=60)


def _is_ready(task: dict[str, object], left: Tasks, directory: Path) -> bool:
    inputs, after = task["inputs"], task.get("after", [])
    assert isinstance(inputs, list)
    assert isinstance(after, list)
    return all((directory / file).exists() for file in inputs) and not set(after) & set(left)
