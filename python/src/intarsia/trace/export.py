"""Workloads in the forms of others: WfFormat 1.5, and Chrome traces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from intarsia.run.lanes import first_free
from intarsia.run.record import time_text
from intarsia.trace.workload import Task, Workload

_MICRO = 1e6


def wfformat_of(workload: Workload) -> dict[str, Any]:
    """Return the workload as an instance of WfFormat 1.5: files are read and written whole there.

    Of a task that was not timed, the run time is its computation.
    """
    parents = workload.parents()
    children: dict[str, list[str]] = {task.name: [] for task in workload.tasks}
    for name, found in parents.items():
        for parent in sorted(found):
            children[parent].append(name)
    spans = spans_of(workload)
    hosts = sorted({task.host or "host" for task in workload.tasks})
    first = min((start for start, _ in spans.values()), default=0.0)
    return {
        "name": workload.name,
        "schemaVersion": "1.5",
        "createdAt": time_text(first),
        "workflow": {
            "specification": {
                "tasks": [
                    {
                        "name": task.name,
                        "id": task.name,
                        "parents": sorted(parents[task.name]),
                        "children": children[task.name],
                        "inputFiles": _inputs(task),
                        "outputFiles": list(task.files("write")),
                    }
                    for task in workload.tasks
                ],
                "files": [
                    {"id": name, "sizeInBytes": size} for name, size in workload.files.items()
                ],
            },
            "execution": {
                "makespanInSeconds": round(max(end for _, end in spans.values()) - first, 6),
                "executedAt": time_text(first),
                "tasks": [_executed(task, *spans[task.name]) for task in workload.tasks],
                "machines": [{"nodeName": host} for host in hosts],
            },
        },
    }


def _inputs(task: Task) -> list[str]:
    """What it reads, but for what it wrote itself: no task reads its own output there."""
    return [file for file in task.files("read") if file not in task.files("write")]


def _executed(task: Task, start: float, end: float) -> dict[str, Any]:
    took_s = max(end - start, 1e-6)
    return {
        "id": task.name,
        "runtimeInSeconds": round(took_s, 6),
        "executedAt": time_text(start),
        "command": {"program": task.stage, "arguments": []},
        "coreCount": task.slots,
        "avgCPU": round(min(100.0, 100 * task.compute_s / took_s), 3),
        "machines": [task.host or "host"],
    }


def chrome_of(workload: Workload) -> dict[str, Any]:
    """Return the workload as a Chrome trace, which Perfetto and chrome://tracing open."""
    spans = spans_of(workload)
    zero = min(start for start, _ in spans.values())
    hosts = sorted({task.host or "host" for task in workload.tasks})
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": number, "args": {"name": host}}
        for number, host in enumerate(hosts, start=1)
    ]
    for number, host in enumerate(hosts, start=1):
        mine = [task for task in workload.tasks if (task.host or "host") == host]
        events += _lanes(mine, number, spans, zero)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _lanes(
    tasks: list[Task], process: int, spans: dict[str, tuple[float, float]], zero: float
) -> Iterator[dict[str, Any]]:
    """Each task in the first lane that is free when it begins."""
    in_order = sorted(tasks, key=lambda task: spans[task.name])
    for task, lane in zip(in_order, first_free(spans[task.name] for task in in_order), strict=True):
        start, end = spans[task.name]
        place = {"pid": process, "tid": lane + 1}
        told: dict[str, Any] = {"read": task.files("read"), "written": task.files("write")}
        yield _slice(task.name, task.stage, start - zero, end - start, place, told)
        for one in task.operations:
            if one.at_s is not None and one.kind in ("read", "write"):
                told = {"bytes": one.size, "offset": one.offset}
                name = f"{one.kind} {one.file}"
                yield _slice(name, one.kind, one.at_s - zero, one.seconds, place, told)


def _slice(
    name: str, kind: str, at_s: float, took_s: float, place: dict[str, int], told: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": round(at_s * _MICRO), "dur": max(1, round(took_s * _MICRO))}
    return {"name": name, "cat": kind, "ph": "X", **times, **place, "args": told}


def spans_of(workload: Workload) -> dict[str, tuple[float, float]]:
    """When each task ran, in seconds; where nobody knows of one, all as soon as they could."""
    by_name = {task.name: task for task in workload.tasks}
    told = {
        task.name: (task.began_s, task.ended_s)
        for task in workload.tasks
        if task.began_s is not None and task.ended_s is not None
    }
    if len(told) == len(by_name):
        return told
    spans: dict[str, tuple[float, float]] = {}
    parents = workload.parents()
    left = list(by_name)
    while left:
        ready = [name for name in left if parents[name] <= spans.keys()]
        for name in ready:
            start = max((spans[parent][1] for parent in parents[name]), default=0.0)
            spans[name] = (start, start + by_name[name].compute_s)
        left = [name for name in left if name not in spans]
    return spans
