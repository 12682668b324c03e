"""Reads a Makefile as a graph: GNU make itself says what is made of what, and makes each file.

`make` prints its data base after it has looked, without running anything, for what its first goal
needs; so patterns, variables and functions are expanded as it does it. Each target that it would
make becomes a task, whose command is `make` for that target alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from intarsia.run.graph import Graph, GraphError, Task, graph_of

_READ_S = 120
_GOAL = re.compile(r"^\.DEFAULT_GOAL := (.+)$", re.MULTILINE)
_RECIPE = re.compile(r"#  recipe to execute \(from '.*', line (\d+)\):")
_TRACED = re.compile(r"^.+:\d+: (?:update )?target '(.+?)' (?:due to|does not exist)")
_ENTRY = re.compile(r"([^#\t\s].*?)(::?)(?:\s+(.*))?")
# A line of a recipe that make runs even when it only looks.
_RUNS_ALWAYS = re.compile(r"^\t[@-]*\+|\$[({]MAKE[)}]")


def is_makefile(path: Path) -> bool:
    """Whether a file is called as Makefiles are."""
    return path.name in ("Makefile", "makefile", "GNUmakefile") or path.suffix == ".mk"


def read_makefile(path: Path, directory: Path, shared: Path) -> Graph:
    """Read what the first goal of a Makefile needs, for the files in `directory`.

    `shared` is where all hosts see the Makefile when the tasks run. Raises GraphError with what
    make says, or with what cannot be run as tasks.
    """
    text = _database(path, directory)
    goal = _GOAL.search(text)
    if goal is None:
        raise GraphError(str(path), ["there are no targets"])
    targets = {target.name: target for target in _targets(text)}
    return _Reader(path, directory, shared, targets, _traced(text)).graph(goal[1].strip())


def _database(path: Path, directory: Path) -> str:
    words = ["make", "--file", str(path.absolute()), "--always-make", "--dry-run"]
    hidden = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # of a make that runs this
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    try:
        done = subprocess.run(
            [*words, "--print-data-base", "--trace"],
            cwd=directory,
            env=environment | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_READ_S,
            check=False,
        )
    except FileNotFoundError:
        raise GraphError(str(path), ["make is missing (Debian package: make)"]) from None
    except subprocess.TimeoutExpired:
        raise GraphError(str(path), [f"make did not read it within {_READ_S} s"]) from None
    if done.returncode:
        raise GraphError(str(path), done.stderr.strip().splitlines() or ["make failed"])
    return done.stdout


def _traced(text: str) -> dict[str, str]:
    """Return what each target's recipe comes to, for the targets that make would make."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.partition("\n# Make data base")[0].splitlines():
        if traced := _TRACED.match(line):
            lines = found.setdefault(traced[1], [])
        else:
            lines.append(line)
    return {target: "\n".join(lines) for target, lines in found.items()}


@dataclass
class _Target:
    """An entry of the section `Files` of the data base."""

    name: str
    needs: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    line: int = 0
    stem: str = ""
    also: list[str] = field(default_factory=list)
    recipe: list[str] = field(default_factory=list)
    is_phony: bool = False
    is_intermediate: bool = False
    is_double: bool = False


def _targets(text: str) -> Iterator[_Target]:
    # A make that was run meanwhile prints its own before.
    section = text.rpartition("\n# Files\n")[2].partition("\n# files hash-table stats:")[0]
    for block in re.split(r"\n\n+", section):
        lines = [line for line in block.splitlines() if line != "# Not a target:"]
        if head := _head(lines):
            yield _target(head, lines)


def _head(lines: Iterable[str]) -> str:
    """The line of a target with what it needs; lines before say values of its own variables."""
    before = takewhile(lambda line: not line.startswith("\t"), lines)
    return next((line for line in reversed([*before]) if _ENTRY.fullmatch(line)), "")


def _target(head: str, lines: Iterable[str]) -> _Target:
    found = _ENTRY.fullmatch(head)
    assert found is not None
    needs, _, after = (found[3] or "").partition("|")
    target = _Target(found[1], needs.split(), after.split(), is_double=found[2] == "::")
    for line in lines:
        if recipe := _RECIPE.match(line):
            target.line = int(recipe[1])
        elif line.startswith("\t"):
            target.recipe.append(line)
        elif line.startswith("#  Also makes: "):
            target.also = line.removeprefix("#  Also makes: ").split()
        elif line.startswith("#  Implicit/static pattern stem: '"):
            target.stem = line.split("'")[1]
        elif line.startswith("#  File is an intermediate prerequisite"):
            target.is_intermediate = True
        elif line.startswith("#  Phony target"):
            target.is_phony = True
    return target


class _Reader:
    """Makes tasks of what a goal needs."""

    def __init__(
        self,
        path: Path,
        directory: Path,
        shared: Path,
        targets: Mapping[str, _Target],
        recipes: Mapping[str, str],
    ) -> None:
        self._path, self._directory, self._shared = path, directory, shared
        self._targets, self._recipes = targets, recipes
        self._read = {need for target in targets.values() for need in target.needs}
        self._tasks: dict[str, Task] = {}
        self._names: dict[str, str] = {}
        self._problems: list[str] = []

    def graph(self, goal: str) -> Graph:
        """Return the tasks that `goal` needs."""
        waiting, seen = [goal], {goal}
        while waiting:
            target = self._targets.get(waiting.pop(0), _Target(""))
            if target.recipe and target.name not in self._names and not self._is_left(target):
                self._add(target)
            new = [one for one in (*target.needs, *target.after) if one not in seen]
            seen.update(new)
            waiting += new
        if self._problems:
            raise GraphError(str(self._path), sorted(self._problems))
        return graph_of(str(self._path), self._path.absolute().parent.name, self._tasks.values())

    def _add(self, target: _Target) -> None:
        place = f"line {target.line}: target {target.name}"
        if target.is_double:
            self._problems.append(f"{place}: rules with '::' are not supported")
        if any(_RUNS_ALWAYS.search(line) for line in target.recipe):
            self._problems.append(
                f"{place}: lines that begin with '+', and $(MAKE), are not supported, as make runs "
                "them even when it only looks; write the graph in one Makefile"
            )
        makes = list(dict.fromkeys(target.also or [target.name]))
        for name in makes:
            self._names[name] = target.name
        needs, after = self._needs(target)
        self._tasks[target.name] = Task(
            self._task_name(target.name),
            self._command(target),
            tuple(needs),
            () if target.is_phony else tuple(makes),
            tuple(after),
            stage=_stage(target),
            temp=tuple(makes) if target.is_intermediate and not target.is_phony else (),
            recipe=self._recipe(target),
        )

    def _is_left(self, target: _Target) -> bool:
        """Whether a target is left to those that need it to be there, as a directory."""
        is_needed = any(target.name in other.after for other in self._targets.values())
        is_alone = not (target.needs or target.after or target.is_phony)
        return is_needed and is_alone and target.name not in self._read

    def _needs(self, target: _Target) -> tuple[list[str], list[str]]:
        """Files that a target is made of, and tasks that must be done before."""
        needs, after = [], []
        for name in dict.fromkeys(self._meant((*target.needs, *target.after))):
            maker = self._targets.get(name)
            if maker is None or not maker.recipe:
                if name not in target.after and not (self._directory / name).is_dir():
                    needs.append(name)
            elif maker.is_phony or name in target.after:
                if not self._is_left(maker):
                    after.append(self._task_name(self._names.get(name, name)))
            else:
                needs.append(name)
        return needs, after

    def _meant(self, names: Iterable[str]) -> Iterator[str]:
        """What stands for something else in place of it: targets without a recipe."""
        for name in names:
            target = self._targets.get(name)
            if target is None or target.recipe or (self._directory / name).exists():
                yield name
            elif target.is_phony or target.needs or target.after:
                yield from self._meant((*target.needs, *target.after))
            elif name in self._read and not target.is_phony:
                yield name

    def _command(self, target: _Target) -> str:
        """Make the target alone: all that it needs is there, and not to be made again."""
        words = ["make", "--no-print-directory", "--file", str(self._shared)]
        for need in dict.fromkeys((*target.needs, *target.after)):
            known = self._targets.get(need)
            if known is None or not self._is_left(known):
                words += ["--assume-old", need]
        kept = [need for need in target.needs if need in self._targets]
        if kept := [need for need in kept if self._targets[need].is_intermediate]:
            # Else make removes them, also from under other tasks that read them.
            words.append(f"--eval=.PRECIOUS: {' '.join(kept)}")
        # Another recipe is another command, which has the task run again.
        recipe = self._recipe(target).encode(errors="surrogateescape")
        mark = hashlib.blake2b(recipe, digest_size=4).hexdigest()
        return f"{shlex.join([*words, '--', target.name])} # recipe {mark}"

    def _recipe(self, target: _Target) -> str:
        """What `make` runs for a target."""
        return self._recipes.get(target.name, "\n".join(target.recipe))

    def _task_name(self, target: str) -> str:
        """Return a name that is safe for a file: no two targets have the same."""
        name = re.sub(r"[^0-9A-Za-z_.-]", "_", target)[:150]
        same = [one for one in self._targets if re.sub(r"[^0-9A-Za-z_.-]", "_", one)[:150] == name]
        return name if same[:1] == [target] else f"{name}-{same.index(target)}"


def _stage(target: _Target) -> str:
    """The rule, for reports, whose letters are those of Unicode."""
    rule = target.name.replace(target.stem, "%", 1) if target.stem else target.name
    return os.fsencode(rule).decode(errors="replace")
