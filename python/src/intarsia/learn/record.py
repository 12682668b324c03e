"""Observations from a record of a run: WfFormat 1.5, best as `intarsia run --record` writes it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from intarsia.learn.observed import File, LearnError, Observed, Ran, Read, Role
from intarsia.run.wfformat import stem


def read_record(source: str, text: str) -> Observed:
    """Read what a run was observed to do; raises LearnError for what is no record.

    Of instances that others have recorded times and hosts may be missing: then less is learned.
    """
    try:
        document = json.loads(text)
        specification = document["workflow"]["specification"]
        execution = document["workflow"].get("execution", {})
        tasks = [(str(one["id"]), one) for one in specification["tasks"]]
        about = {str(one["id"]): one for one in specification.get("files", [])}
        executed = {str(one["id"]): one for one in execution.get("tasks", [])}
        ran = {name: _ran(task, executed.get(name, {})) for name, task in tasks}
        return _observed(source, tasks, about, ran)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"is no record in WfFormat 1.5 ({type(error).__name__}: {error})"
        raise LearnError(source, what, "`intarsia run --record` writes one") from None


def _ran(task: Mapping[str, Any], executed: Mapping[str, Any]) -> Ran:
    command = executed.get("command") or {}
    stage = command.get("program") or stem(str(task.get("name") or task["id"]))
    machines = executed.get("machines") or [""]
    if "executedAt" not in executed:
        return Ran(stage, str(machines[0]))
    began_s = datetime.fromisoformat(executed["executedAt"]).timestamp()
    took_s = float(executed["runtimeInSeconds"])
    return Ran(stage, str(machines[0]), began_s, began_s + took_s)


def _observed(
    source: str,
    tasks: list[tuple[str, Mapping[str, Any]]],
    about: Mapping[str, Mapping[str, Any]],
    ran: Mapping[str, Ran],
) -> Observed:
    reads: dict[str, list[Read]] = defaultdict(list)
    for name, task in tasks:
        for file in dict.fromkeys(task.get("inputFiles", [])):
            reads[file].append(ran[name].reading(name))
    files = []
    kept: dict[Role, Mapping[str, str]] = {}
    for name, task in tasks:
        made = ran[name]
        for file in dict.fromkeys(task.get("outputFiles", [])):
            told = about.get(file, {})
            seen = File(
                str(told.get("path", file)),
                int(told.get("sizeInBytes", 0)),
                name,
                made.stage,
                made.host,
                made.ended_s,
                tuple(told.get("hosts", ())),
                dict(told.get("hints", {})),
                tuple(reads[file]),
                made.took_s,
            )
            files.append(seen)
            if told.get("learned"):
                kept[seen.role] = seen.hints
    return Observed(source, tuple(files), kept)
