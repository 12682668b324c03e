"""Workloads from WfFormat: published instances, and what `intarsia run --record` writes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from intarsia.run.graph import GraphError
from intarsia.run.replay import Replay
from intarsia.run.wfformat import graph_of_instance, task_name
from intarsia.trace.errors import TraceError
from intarsia.trace.workload import Operation, Task, Workload


def read_instance(source: str, document: Any) -> Workload:
    """Make a workload of the JSON of WfFormat 1.5 or 1.6; raises TraceError with all that is wrong.

    A task reads its inputs whole, computes and writes its outputs whole. Its computation is the
    part of its run time in which it used a processor, so that waiting for files does not count.
    """
    try:
        graph = graph_of_instance(source, document, Replay())
    except GraphError as error:
        raise TraceError(
            source, "", str(error).removeprefix(f"{source}: "), "WfFormat 1.5 and 1.6 are known"
        ) from None
    made = Workload(graph.name, [], dict(graph.size_bytes), list(graph.warnings))
    executed = _executed(document)
    for task in graph.tasks.values():
        ran = executed.get(task.name, {})
        began_s = _moment(source, task.name, ran.get("executedAt"))
        took_s = float(ran.get("runtimeInSeconds", 0.0))
        machines = ran.get("machines") or [""]
        made.tasks.append(
            Task(
                task.name,
                task.stage,
                _operations(task.inputs, task.compute_s, task.outputs, graph.size_bytes),
                tuple(sorted(task.after)),
                task.cores,
                str(machines[0]),
                began_s,
                None if began_s is None else began_s + took_s,
            )
        )
    if made.tasks and not any(task.compute_s for task in made.tasks):
        made.warnings.append(
            "no task used a processor: a replay that slept says nothing of computations"
        )
    return made


def _operations(
    inputs: tuple[str, ...], compute_s: float, outputs: tuple[str, ...], sizes: dict[str, int] | Any
) -> list[Operation]:
    made = []
    for file in inputs:
        made += [Operation("open", file), Operation("read", file, 0, sizes[file])]
        made.append(Operation("close", file))
    made.append(Operation("compute", seconds=compute_s))
    for file in outputs:
        made += [Operation("write", file, 0, sizes[file]), Operation("close", file)]
    return made


def _executed(document: Any) -> dict[str, dict[str, Any]]:
    tasks = document["workflow"]["execution"]["tasks"]
    return {task_name(str(task.get("id"))): task for task in tasks}


def _moment(source: str, task: str, text: Any) -> float | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        raise TraceError(
            source, f"task {task}: field 'executedAt'", f"{text!r} is no time of ISO 8601"
        ) from None
