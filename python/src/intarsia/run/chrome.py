"""A run as a Chrome trace, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from intarsia.run.attempts import Attempt, History
from intarsia.run.lanes import lanes_of

_MICRO = 1e6


def trace_of(history: History) -> dict[str, Any]:
    """Return the trace: a process for each host, a thread for each slot that was used."""
    return {"traceEvents": list(_events(history)), "displayTimeUnit": "ms"}


def write_trace(path: Path, history: History) -> None:
    """Write the trace; raises OSError."""
    path.write_text(json.dumps(trace_of(history)), encoding="utf-8")


def _events(history: History) -> Iterator[dict[str, Any]]:
    for number, (host, lanes) in enumerate(lanes_of(history.attempts).items(), start=1):
        yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": host}}
        for slot, lane in enumerate(lanes, start=1):
            for one in lane:
                yield _event(history, one, number, slot)


def _event(history: History, one: Attempt, process: int, thread: int) -> dict[str, Any]:
    return {
        "name": one.task,
        "cat": history.graph.tasks[one.task].stage,
        "ph": "X",
        "ts": round((one.outcome.began_s - history.began_s) * _MICRO),
        "dur": round(one.outcome.took_s * _MICRO),
        "pid": process,
        "tid": thread,
        "args": {
            "attempt": one.number,
            "result": str(one.outcome.result),
            "detail": one.outcome.detail,
            "waited_s": round(one.sent_s - one.ready_s, 6),
            "cpu_s": round(one.outcome.cpu_s, 6),
            "input_bytes": one.input_bytes,
            "local_bytes": one.local_bytes,
        },
    }
