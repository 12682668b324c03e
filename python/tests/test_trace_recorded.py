"""`intarsia trace` of what nodes recorded: tasks, bytes, several hosts, torn and foreign logs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from intarsia.trace import __main__ as command
from intarsia.trace import recorded
from intarsia.trace.errors import TraceError
from intarsia.trace.recorded import read_recorded
from intarsia.trace.workload import Workload

#: A shell that makes d/in (20 MB), sorts it, sums both up; Python reads 1 MB of it; cat reads 2 B.
LOG = Path(__file__).parent / "data" / "host.trace"
READS = {"reads": True, "writes": False, "is_new": False, "truncates": False}
WRITES = {"reads": False, "writes": True, "is_new": True, "truncates": True}
SEEN = {"bytes": 0, "how": "seen"}
MS = 1_000_000


def host(name: str = "n1", began_s: int = 1_700_000_000, store: str = "s") -> dict[str, Any]:
    return {"kind": "host", "version": 1, "name": name, "store": store} | {
        "began_unix_ns": began_s * 10**9,
        "detail": "coarse",
    }


def process(number: int, program: str, at_ms: int, parent: int = 1) -> dict[str, Any]:
    return {
        "kind": "process",
        "process": number,
        "pid": 100 + number,
        "parent_pid": parent,
        "began_unix_ns": 1_700_000_000 * 10**9 + at_ms * MS,
        "at_ns": at_ms * MS,
        "program": program,
        "command": [program, ""],
    }


def opened(
    handle: int, who: int, name: str, access: Mapping[str, bool], at_ms: int, size: int = 0
) -> dict[str, Any]:
    return {
        "kind": "open",
        "handle": handle,
        "process": who,
        "file": 1000 + handle,
        "directory": 1,
        "name": name,
        "access": {**access, "is_passthrough": True},
        "size_bytes": size,
        "at_ns": at_ms * MS,
        "took_ns": 0,
    }


def closed(
    handle: int, at_ms: int, size: int, read: Any = SEEN, written: Any = SEEN
) -> dict[str, Any]:
    return {
        "kind": "close",
        "handle": handle,
        "size_bytes": size,
        "at_ns": at_ms * MS,
        "read": read,
        "written": written,
    }


ROOT = {"kind": "directory", "ino": 1, "path": ""}


def workload(
    monkeypatch: pytest.MonkeyPatch, *logs: Iterable[Mapping[str, Any]], below: str = ""
) -> Workload:
    told = {str(number): list(log) for number, log in enumerate(logs)}
    monkeypatch.setattr(recorded, "_records", lambda path: told[path])
    return read_recorded(list(told), below)


def test_a_log_becomes_a_workload_by_the_program(tmp_path: Path) -> None:
    made = tmp_path / "w.json"
    assert command.main([str(LOG), "--out", str(made)]) == 0
    document = json.loads(made.read_text())
    tasks = {task["name"]: task["operations"] for task in document["tasks"]}
    assert list(tasks) == ["sh-1", "sort-1", "cat-1", "sh-2", "python3-1", "cat-2"]
    sizes = {file["name"]: file["size_bytes"] for file in document["files"]}
    assert sizes == {"d/in": 20_000_000, "d/out": 20_000_001, "sum": 36, "x": 2}
    # The shell opened d/out for sort, which wrote it.
    assert {"write": "d/out", "offset_bytes": 0, "size_bytes": 20_000_001} in tasks["sort-1"]
    # Python read a part, and slept 0.2 s.
    read = next(one for one in tasks["python3-1"] if "read" in one)
    assert 1_000_000 <= read["size_bytes"] < 1_100_000
    computed = sum(one.get("compute_seconds", 0) for one in tasks["python3-1"])
    assert 0.2 < computed < 0.6


def test_below_keeps_the_files_of_a_directory() -> None:
    made = read_recorded([str(LOG)], "d")
    assert set(made.files) == {"in", "out"}
    with pytest.raises(TraceError, match="no process reads or writes a file below nowhere"):
        read_recorded([str(LOG)], "nowhere")


def test_a_torn_log_is_read_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "torn.trace"
    content = LOG.read_bytes()
    torn.write_bytes(content[:-7])
    assert command.main([str(torn), "--out", str(tmp_path / "w.json")]) == 0
    assert "the log ends within a block" in capsys.readouterr().err
    for cut in (1, 14, 15, 30):
        torn.write_bytes(content[:cut])
        assert command.main([str(torn)]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"error: {torn}: ends before it says which host wrote it"), said


def test_a_log_is_not_given_twice(tmp_path: Path) -> None:
    again = tmp_path / "again.trace"
    shutil.copy(LOG, again)
    with pytest.raises(TraceError, match=r"again\.trace: is the same log as .*host\.trace"):
        read_recorded([str(LOG), str(again)])


def test_hosts_are_one_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"bytes": 500, "how": "length"}
    first = [
        host(),
        ROOT,
        process(1, "make", 0),
        opened(1, 1, "a", WRITES, 10),
        closed(1, 40, 500, written=made),
    ]
    read = {"bytes": 500, "how": "assumed"}
    second = [
        host("n2", 1_700_000_001),
        ROOT,
        process(1, "use", 1000),
        opened(1, 1, "a", READS, 10, 500),
        closed(1, 90, 500, read=read),
    ]
    both = workload(monkeypatch, first, second)
    assert [(task.name, task.host) for task in both.tasks] == [("make-1", "n1"), ("use-1", "n2")]
    assert both.parents()["use-1"] == {"make-1"}
    foreign = [{**second[0], "store": "other"}, *second[1:]]
    with pytest.raises(TraceError, match="of another store"):
        workload(monkeypatch, first, foreign)


def test_requests_through_the_process_keep_their_places_and_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranged = {
        "kind": "range",
        "handle": 1,
        "is_write": False,
        "offset": 4096,
        "span_bytes": 1000,
        "bytes": 3000,
        "calls": 3,
        "began_ns": 20 * MS,
        "ended_ns": 80 * MS,
        "took_ns": 30 * MS,
    }
    log = [
        host(),
        ROOT,
        process(1, "scan", 0),
        opened(1, 1, "a", {**READS}, 10, 9000),
        ranged,
        closed(1, 90, 9000, read={"bytes": 3000, "how": "seen"}),
        {"kind": "ended", "process": 1, "at_ns": 100 * MS},
    ]
    made = workload(monkeypatch, log)
    reads = [one for one in made.tasks[0].operations if one.kind == "read"]
    assert [(one.offset, one.size) for one in reads] == [(4096, 1000)] * 3
    # 100 ms of life, of which 30 ms were spent in reads.
    assert made.tasks[0].compute_s == pytest.approx(0.07, abs=0.005)


def test_a_parent_does_not_compute_while_its_child_works(monkeypatch: pytest.MonkeyPatch) -> None:
    wrote = {"bytes": 5, "how": "length"}
    log = [
        host(),
        ROOT,
        process(1, "driver", 0),
        opened(1, 1, "a", WRITES, 10),
        closed(1, 11, 5, written=wrote),
        process(2, "child", 100, parent=101),
        opened(2, 2, "b", WRITES, 110),
        closed(2, 1000, 5, written=wrote),
        {"kind": "ended", "process": 2, "at_ns": 1100 * MS},
        {"kind": "ended", "process": 1, "at_ns": 1200 * MS},
    ]
    made = workload(monkeypatch, log)
    computed = {task.name: task.compute_s for task in made.tasks}
    assert computed["driver-1"] == pytest.approx(0.2, abs=0.01)
    assert computed["child-1"] == pytest.approx(1.0, abs=0.01)


def test_what_a_killed_node_left_open_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = [host(), ROOT, process(1, "scan", 0), opened(1, 1, "a", READS, 10, 9000)]
    made = workload(monkeypatch, log)
    assert made.files == {"a": 9000}
    assert any("1 files were still open" in warning for warning in made.warnings)


def test_a_record_without_its_fields_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError, match=r"0: record 2: cannot be used: 'path'"):
        workload(monkeypatch, [host(), {"kind": "directory"}])
