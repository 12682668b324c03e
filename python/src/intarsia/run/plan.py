"""What a run would do: shown by `--dry-run`, and looked at before a run begins."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.learn.lessons import Lesson
from intarsia.learn.observed import Role
from intarsia.learn.tell import in_order, object_of
from intarsia.run.attempt import read_first, stamp_of
from intarsia.run.commands import read_commands
from intarsia.run.graph import Graph, GraphError
from intarsia.run.hints import Derivation, chosen_by, own_hints
from intarsia.run.lineage import Made, lineages, needed
from intarsia.run.makefile import is_makefile, read_makefile
from intarsia.run.mentioned import joined
from intarsia.run.order import Stamp
from intarsia.run.patience import patiently
from intarsia.run.replay import Replay
from intarsia.run.tags import hints_text
from intarsia.run.wfformat import is_wfformat, read_wfformat

# Of a long list so many are named.
_NAMED = 10


@dataclass(frozen=True)
class Plan:
    """The tasks that have to run, with the lineage of all."""

    lineage: Mapping[str, str]
    to_run: frozenset[str]


def read_workflow(path: Path, replay: Replay, directory: Path, run_dir: Path) -> tuple[Graph, bool]:
    """Read a workflow; says too whether it is a replay. Raises GraphError.

    What a Makefile says depends on the files in `directory`; tasks use a copy in `run_dir`.
    """
    if is_makefile(path) and path.is_file():
        return read_makefile(path, directory, run_dir / path.name), False
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(str(path), [f"cannot be read: {error}"]) from None
    if is_wfformat(text):
        return read_wfformat(str(path), text, replay), True
    return read_commands(str(path), text), False


def stamps_below(directory: Path, *, probes: bool = False) -> Callable[[str], Stamp | None]:
    """Return a function that says how files below `directory` look; each is asked for once.

    With `probes` a file whose first byte cannot be read counts as gone.
    """
    known: dict[str, Stamp | None] = {}

    def look(file: str) -> Stamp | None:
        if file not in known:
            found = patiently(lambda: stamp_of(str(directory / file)))
            if probes and found is not None and not _begins(directory / file):
                found = None
            known[file] = found
        return known[file]

    return look


def _begins(path: Path) -> bool:
    """Whether the first byte of a file can be read, if it has one."""
    try:
        read_first(str(path))
    except OSError:
        return False
    return True


def plan_of(
    graph: Graph, directory: Path, made: Mapping[str, Made], *, probes: bool = False
) -> Plan:
    """Look what has to run, of which some was made before; with `probes` read what is there."""
    look = stamps_below(directory, probes=probes)
    lineage = lineages(graph, look)
    return Plan(lineage, frozenset(needed(graph, lineage, made, look)))


def require_inputs(source: str, graph: Graph, directory: Path) -> list[str]:
    """Raise GraphError for inputs that are not there and that no task makes.

    Returns warnings about those that are directories.
    """
    kinds = {file: _kind(directory / file) for file in graph.sources}
    missing = [file for file, kind in kinds.items() if kind is None]
    problems = [
        f"task {graph.consumers[file][0]}: field 'inputs': {directory / file} is not there, "
        "and no task makes it"
        for file in missing[:_NAMED]
    ]
    if len(missing) > _NAMED:
        problems.append(f"and {len(missing) - _NAMED} more inputs are not there")
    if problems:
        raise GraphError(source, problems)
    return [
        f"task {graph.consumers[file][0]}: field 'inputs': {file} is a directory, and what changes "
        "in it has no task run again; name the files in it"
        for file, kind in kinds.items()
        if kind == stat.S_IFDIR
    ][:_NAMED]


def refuse_outputs(source: str, graph: Graph, directory: Path, kept: Sequence[Path]) -> None:
    """Raise GraphError for outputs that are one of `kept`, or lie in it: they would be removed."""
    places = tuple(f"{place}/" for place in kept)
    problems = [
        f"task {maker}: field 'outputs': {file} is what the run itself needs"
        for file, maker in graph.producer.items()
        if f"{joined(directory, file)}/".startswith(places)
    ]
    if problems:
        raise GraphError(source, problems[:_NAMED])


def _kind(path: Path) -> int | None:
    """Whether a path is a file, a directory or something else; None where there is nothing."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def chosen_hints(
    choice: str, derivation: Derivation, lessons: Mapping[Role, Lesson]
) -> dict[str, dict[str, str]]:
    """Return the hints that are set on files; `choice` is learned, derived, own or none."""
    if choice == "none":
        return {}
    if choice == "own":
        return own_hints(derivation.graph)
    return chosen_by(derivation, lessons if choice == "learned" else {})


#: Heads of what `rows_of` returns.
PLAN_HEADS = ("task", "", "after", "outputs", "hints")


def planned(
    rows: Sequence[Sequence[str]],
    lessons: Mapping[Role, Lesson],
    protection: Sequence[Mapping[str, Any]],
    derived: Sequence[Sequence[str]],
) -> dict[str, Any]:
    """Return what `--dry-run --json` prints: tasks, and why files have hints or none."""
    fields = ("task", "state", "after", "outputs", "hints")
    return {
        "tasks": [dict(zip(fields, row, strict=True)) for row in rows],
        "lessons": [object_of(one) for one in in_order(lessons.values())],
        "derived": [dict(zip(DERIVED_HEADS, row, strict=True)) for row in derived],
        "copies_or_recomputation": list(protection),
    }


#: Heads of what `derived_rows` returns.
DERIVED_HEADS = ("rule", "files", "hint", "why")


def derived_rows(
    derivation: Derivation, lessons: Mapping[Role, Lesson]
) -> list[tuple[str, str, str, str]]:
    """Return for each rule what the graph says of its files, and why; not of what was learned."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for file in derivation.graph.producer:
        role = derivation.role(file)
        if role not in lessons:
            found = derivation.of(file)
            counts[str(role), hints_text(found.hints), found.why] += 1
    return [(rule, str(count), hint, why) for (rule, hint, why), count in counts.items()]


def rows_of(
    graph: Graph, plan: Plan, hints: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, ...]]:
    """Return what `--dry-run` shows of each task."""
    rows: list[tuple[str, ...]] = []
    for name, task in graph.tasks.items():
        told = {
            f"{hint}={value}"
            for file in task.outputs
            for hint, value in hints.get(file, {}).items()
        }
        rows.append(
            (
                name,
                "run" if name in plan.to_run else "done before",
                " ".join(sorted(graph.parents[name])) or "-",
                " ".join(task.outputs) or "-",
                " ".join(sorted(told)) or "-",
            )
        )
    return rows
