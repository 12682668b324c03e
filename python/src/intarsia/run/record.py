"""A run as WfFormat 1.5, with the start time of every task."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from intarsia.release import installed_version
from intarsia.run.attempts import History
from intarsia.run.graph import Task
from intarsia.run.hints import role_in
from intarsia.run.journal import Past

_WORD_LIMIT = 200
# What identifiers may not consist of. (WfFormat 1.5: `^[0-9a-zA-Z-_.]*$`.)
_UNSAFE = re.compile(r"[^0-9a-zA-Z_.-]")


def wfformat_of(history: History, past: Mapping[str, Past]) -> dict[str, Any]:
    """Return the run as an instance of WfFormat; `past` tells of tasks that were done before.

    It goes by the schema of WfFormat 1.5. Beyond it tasks have `executedAt`, when they began, and
    `machines`, as recorded instances have it; files have `path`, the name that they had, `hosts`
    that held them when they were read, their `hints` and whether these were `learned`. Tasks that
    are not done have no entry in its execution.
    """
    graph = history.graph
    ran = {name: past[name] for name in history.reused if name in past}
    memory: dict[str, int] = {}
    for one in history.done:
        outcome = one.outcome
        ran[one.task] = Past(one.host, outcome.began_s, outcome.ended_s, outcome.cpu_s)
        memory[one.task] = outcome.memory_bytes
    files = dict.fromkeys(
        file for task in graph.tasks.values() for file in (*task.inputs, *task.outputs)
    )
    workflow: dict[str, Any] = {
        "specification": {
            "tasks": [_specified(history, task) for task in graph.tasks.values()],
            "files": [_about(history, file) for file in files],
        }
    }
    if ran:  # an execution without tasks is none
        workflow["execution"] = _execution(history, ran, memory)
    return {
        "name": graph.name,
        "description": f"Run by intarsia run, schedule {history.schedule}",
        "createdAt": time_text(history.ended_s),
        "schemaVersion": "1.5",
        "runtimeSystem": {"name": "intarsia run", "version": installed_version()},
        "workflow": workflow,
    }


def write_record(path: Path, history: History, past: Mapping[str, Past]) -> None:
    """Write the run as WfFormat; raises OSError."""
    path.write_text(json.dumps(wfformat_of(history, past), indent=1) + "\n", encoding="utf-8")


def _about(history: History, file: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": identifier(file),
        "sizeInBytes": _size(history.directory / file),
        "path": file,
    }
    if file in history.lay_on:
        told["hosts"] = list(history.lay_on[file])
    if file in history.hints:
        told["hints"] = dict(history.hints[file])
        told["learned"] = role_in(history.graph, file) in history.lessons
    return told


def _specified(history: History, task: Task) -> dict[str, Any]:
    graph = history.graph
    return {
        "name": task.name,
        "id": identifier(task.name),
        "parents": sorted(map(identifier, graph.parents[task.name])),
        "children": sorted(map(identifier, graph.children[task.name])),
        "inputFiles": [identifier(file) for file in task.inputs],
        "outputFiles": [identifier(file) for file in task.outputs],
    }


def identifier(name: str) -> str:
    """Return the identifier of a task or a file, whose letters the schema of WfFormat restricts.

    A name that has others gets `_` for each of them, and a part of its hash, so that no two
    become one.

    >>> identifier("total"), identifier("out/total")
    ('total', 'out_total-0ff2d820')
    """
    safe = _UNSAFE.sub("_", name)
    if safe == name:
        return name
    return f"{safe}-{hashlib.blake2b(os.fsencode(name), digest_size=4).hexdigest()}"


def _execution(
    history: History, ran: Mapping[str, Past], memory: Mapping[str, int]
) -> dict[str, Any]:
    graph = history.graph
    return {
        "makespanInSeconds": round(history.makespan_s, 6),
        "executedAt": time_text(history.began_s),
        "tasks": [
            _executed(graph.tasks[name], ran[name], memory.get(name, 0))
            for name in graph.tasks
            if name in ran
        ],
        "machines": [
            {"nodeName": host, **history.machines.get(host, {})}
            for host in sorted({one.host for one in ran.values()} | {*history.machines})
        ],
    }


def _executed(task: Task, ran: Past, memory_bytes: int) -> dict[str, Any]:
    took_s = max(ran.ended_s - ran.began_s, 1e-6)
    told: dict[str, Any] = {
        "id": identifier(task.name),
        "runtimeInSeconds": round(took_s, 6),
        "executedAt": time_text(ran.began_s),
        "command": _command(task),
        "coreCount": task.cores,
        "avgCPU": round(100 * ran.cpu_s / took_s, 3),
        "machine": ran.host,
        "machines": [ran.host],
    }
    return told | ({"memoryInBytes": memory_bytes} if memory_bytes else {})


def _command(task: Task) -> dict[str, Any]:
    """The stage as program: that is what readers group tasks by; the command as its arguments."""
    try:
        words = shlex.split(task.command)
    except ValueError:
        words = [task.command]
    return {"program": task.stage, "arguments": [word[:_WORD_LIMIT] for word in words if word]}


def time_text(seconds: float) -> str:
    """Return a moment, in seconds since 1970, as WfFormat writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
