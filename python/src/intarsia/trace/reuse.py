"""A workload of which some stages were recorded anew, because their programs have changed.

What a stage does depends on its programs and on the files that they read. So the other stages stay
as they were recorded as long as the new programs write what these read, in the same lengths
(Costa, PhD thesis, 2014, section 3.2.5).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from intarsia.trace.errors import TraceError
from intarsia.trace.workload import Operation, Task, Workload

_VERSION = re.compile(r"@\d+$")
#: What a task does to a file, by which its version is told: a new version is written, an old read.
_DOES = {"open": "read", "read": "read", "write": "write"}


def with_new_stages(known: Workload, source: str, new: Workload, stages: Iterable[str]) -> Workload:
    """Return `known` with these stages as `new` has them; all stages of `new` if none is named.

    `source` is the file of `new`, for errors. Raises TraceError where a stage is unknown, or where
    the new one no longer writes what a stage that stays reads.
    """
    chosen = list(stages) or new.stages
    for stage in chosen:
        _has(known, "the workload that is reused", source, stage)
        _has(new, "the new record", source, stage)
    stay = [task for task in known.tasks if task.stage not in chosen]
    old = [task for task in known.tasks if task.stage in chosen]
    come = [task for task in new.tasks if task.stage in chosen]
    sizes = _renamed(source, old, come, new.files)
    made = Workload(known.name, [], hints=dict(known.hints), warnings=list(new.warnings))
    written = {file for task in come for file in task.files("write")}
    for file in written:
        _still_fits(source, file, known, sizes, stay)
    _still_written(source, old, written, stay)
    _with_order(known, old, come, stay)
    made.tasks = _in_place(known, chosen, come)
    used = {one.file for task in made.tasks for one in task.operations if one.file}
    old_files = {file: size for file, size in known.files.items() if file in used}
    made.files = old_files | {file: size for file, size in sizes.items() if file in used}
    writers = made.writers()
    for file in used - written:
        # The new program may read less of an input than there is.
        made.files[file] = max(known.files.get(file, 0), sizes.get(file, 0))
        if file in writers and made.files[file] > known.files.get(file, 0):
            had = known.files.get(file, 0)
            raise TraceError(
                source,
                "",
                f"{file!r} is read up to byte {made.files[file]}, and {had} were written",
                f"record the stage of {writers[file]!r}, which writes it, anew as well",
            )
    made.hints = {file: hints for file, hints in made.hints.items() if file in made.files}
    return made


def _has(workload: Workload, what: str, source: str, stage: str) -> None:
    names = workload.stages
    if stage not in names:
        raise TraceError(
            source, "", f"{what} has no stage {stage!r}", f"it has: {', '.join(names)}"
        )


def _renamed(
    source: str, old: list[Task], come: list[Task], sizes: dict[str, int]
) -> dict[str, int]:
    """Give files of the new tasks the names that they have in the workload; returns their sizes.

    A record of one stage does not see that others wrote `x` before, which is `x@2` then.
    """
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for task in old:
        for kind in ("read", "write"):
            for file in task.files(kind):
                names[kind, _VERSION.sub("", file)].add(file)
    own = {file for task in come for file in task.files("write")}
    found: dict[str, int] = {}

    def name_of(one: Operation) -> str:
        # What the new tasks wrote before they read it goes by the name of what is written.
        kind = "write" if one.file in own else _DOES.get(one.kind, "read")
        versions = names.get((kind, _VERSION.sub("", one.file)), {one.file})
        if len(versions) > 1 and one.file not in versions:
            told = ", ".join(sorted(versions))
            raise TraceError(
                source, "", f"the file {one.file!r} may be any of {told}", "record all stages anew"
            )
        return one.file if one.file in versions else next(iter(versions))

    for task in come:
        for one in task.operations:
            if one.file:
                size = sizes[one.file]
                one.file = name_of(one)
                found[one.file] = max(found.get(one.file, 0), size)
    return found


def _readers(file: str, stay: Iterable[Task]) -> str:
    """Stages that read a file, as words."""
    return ", ".join(dict.fromkeys(task.stage for task in stay if file in task.files("read")))


def _still_fits(
    source: str, file: str, known: Workload, sizes: dict[str, int], stay: list[Task]
) -> None:
    readers = _readers(file, stay)
    if readers and known.files.get(file) not in (None, sizes[file]):
        raise TraceError(
            source,
            "",
            f"{file!r} has {sizes[file]} bytes now, and had {known.files[file]}",
            f"record the stages that read it anew as well: {readers}",
        )


def _still_written(source: str, old: list[Task], written: set[str], stay: list[Task]) -> None:
    for task in old:
        for file in task.files("write"):
            if file not in written and (readers := _readers(file, stay)):
                raise TraceError(
                    source,
                    "",
                    f"nobody writes {file!r} any more, which these stages read: {readers}",
                    "record all tasks of the stage, and if it writes other files, those stages too",
                )


def _with_order(known: Workload, old: list[Task], come: list[Task], stay: list[Task]) -> None:
    """Carry over who waits for whom beside files: task by task where names are the same."""
    names = {task.name: task for task in old}
    kept = {task.name for task in stay}
    all_waited = [name for task in old for name in task.after if name in kept]
    taken = {task.name for task in known.tasks} - names.keys()
    renamed: dict[str, str] = {}
    for task in come:
        before = task.name
        while task.name in taken:
            task.name += "'"
        taken.add(task.name)
        renamed[before] = task.name
    for task in come:
        waits = names[task.name].after if task.name in names else all_waited
        own = [renamed[name] for name in task.after if name in renamed]
        task.after = tuple(dict.fromkeys([*own, *(name for name in waits if name in kept)]))
    new_names = {task.name for task in come}
    for task in stay:
        waits = [name for name in task.after if name in kept or name in new_names]
        if len(waits) < len(task.after):
            waits += [one.name for one in come]
        task.after = tuple(dict.fromkeys(waits))


def _in_place(known: Workload, chosen: list[str], come: list[Task]) -> list[Task]:
    """New tasks stand where the first old one of their stage stood."""
    made, begun = [], set()
    for task in known.tasks:
        if task.stage not in chosen:
            made.append(task)
        elif task.stage not in begun:
            begun.add(task.stage)
            made += [one for one in come if one.stage == task.stage]
    return made
