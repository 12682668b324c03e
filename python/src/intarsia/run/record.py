"""A run as WfFormat 1.5, with the start time of every task."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from intarsia.run.attempts import History
from intarsia.run.graph import Task
from intarsia.run.journal import Past

_WORD_LIMIT = 200


def wfformat_of(history: History, past: Mapping[str, Past]) -> dict[str, Any]:
    """Return the run as an instance of WfFormat; `past` tells of tasks that were done before.

    Tasks that are not done have no entry in its execution.
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
    return {
        "name": graph.name,
        "description": f"Run by intarsia run, schedule {history.schedule}",
        "createdAt": _time(history.ended_s),
        "schemaVersion": "1.5",
        "runtimeSystem": {"name": "intarsia run", "version": _version()},
        "workflow": {
            "specification": {
                "tasks": [_specified(history, task) for task in graph.tasks.values()],
                "files": [
                    {"id": file, "sizeInBytes": _size(history.directory / file)} for file in files
                ],
            },
            "execution": {
                "makespanInSeconds": round(history.makespan_s, 6),
                "executedAt": _time(history.began_s),
                "tasks": [
                    _executed(graph.tasks[name], ran[name], memory.get(name, 0))
                    for name in graph.tasks
                    if name in ran
                ],
                "machines": [
                    {"nodeName": host, **history.machines.get(host, {})}
                    for host in sorted({one.host for one in ran.values()} | {*history.machines})
                ],
            },
        },
    }


def write_record(path: Path, history: History, past: Mapping[str, Past]) -> None:
    """Write the run as WfFormat; raises OSError."""
    path.write_text(json.dumps(wfformat_of(history, past), indent=1) + "\n", encoding="utf-8")


def _specified(history: History, task: Task) -> dict[str, Any]:
    graph = history.graph
    return {
        "name": task.name,
        "id": task.name,
        "parents": sorted(graph.parents[task.name]),
        "children": sorted(graph.children[task.name]),
        "inputFiles": list(task.inputs),
        "outputFiles": list(task.outputs),
    }


def _executed(task: Task, ran: Past, memory_bytes: int) -> dict[str, Any]:
    took_s = max(ran.ended_s - ran.began_s, 1e-6)
    told: dict[str, Any] = {
        "id": task.name,
        "runtimeInSeconds": round(took_s, 6),
        "executedAt": _time(ran.began_s),
        "command": _command(task),
        "coreCount": task.cores,
        "avgCPU": round(100 * ran.cpu_s / took_s, 3),
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


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _version() -> str:
    try:
        return version("intarsia")
    except PackageNotFoundError:
        return "unknown"
