"""Extended tracing of Darshan: who read and wrote which bytes, and when."""

from __future__ import annotations

import importlib.util
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from intarsia.trace import __main__ as command
from intarsia.trace.extents import Extent, Extents
from requirements import require

HEAD = """\
# darshan log version: 3.41
# exe: /bin/job --all
# start_time: 1000
# nprocs: {ranks}
# jobid: {job}
# run time: 10.0
#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>
"""
PARSER = (
    "# DXT_POSIX module data\n# Module    Rank  Wt/Rd  Segment  Offset  Length  Start(s)  End(s)\n"
)


def counters(rank: int, number: int, path: str, **values: float) -> str:
    return "".join(
        f"POSIX\t{rank}\t{number}\tPOSIX_{name}\t{value}\t{path}\t/\text4\n"
        for name, value in values.items()
    )


def segments(number: int, path: str, *rows: tuple[int, str, int, int, float, float]) -> str:
    """Return what darshan-dxt-parser prints: rank, kind, offset, length, start and end of each."""
    made = f"# DXT, file_id: {number}, file_name: {path}\n# DXT, rank: 0, hostname: n1\n"
    for at, (rank, kind, offset, length, start, end) in enumerate(rows):
        made += (
            f" X_POSIX{rank:8d}{kind:>7}{at:9d}{offset:16d}{length:16d}{start:12.4f}{end:12.4f}\n"
        )
    return made


def traced(tmp_path: Path, *texts: str) -> dict[str, Any]:
    """Return the workload of logs."""
    logs = []
    for number, text in enumerate(texts):
        logs.append(tmp_path / f"{number}.txt")
        logs[-1].write_text(text)
    out = tmp_path / "workload.json"
    assert command.main([*map(str, logs), "--out", str(out)]) == 0
    made: dict[str, Any] = json.loads(out.read_text())
    return made


def operations(task: dict[str, Any]) -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []
    for one in task["operations"]:
        kind = next(iter(one))
        if kind == "compute_seconds":
            made.append(("compute", one[kind]))
        else:
            made.append((kind, one[kind], one["offset_bytes"], one["size_bytes"]))
    return made


def test_what_a_rank_does_keeps_its_order_and_its_pauses(tmp_path: Path) -> None:
    text = HEAD.format(ranks=1, job=1)
    text += counters(0, 7, "/d/in", BYTES_READ=30, MAX_BYTE_READ=109, F_READ_TIME=2.0)
    text += counters(0, 8, "/d/out", BYTES_WRITTEN=20, MAX_BYTE_WRITTEN=19, F_WRITE_TIME=1.0)
    text += PARSER
    text += segments(7, "/d/in", (0, "read", 0, 10, 1.0, 1.5), (0, "read", 10, 10, 1.5, 2.0))
    text += segments(7, "/d/in", (0, "read", 100, 10, 5.0, 6.0))
    text += segments(8, "/d/out", (0, "write", 0, 20, 4.0, 5.0))
    made = traced(tmp_path, text)
    assert operations(made["tasks"][0]) == [
        ("compute", 1.0),
        ("read", "/d/in", 0, 20),
        ("compute", 2.0),
        ("write", "/d/out", 0, 20),
        ("read", "/d/in", 100, 10),
        ("compute", 4.0),
    ]
    assert made["files"] == [
        {"name": "/d/in", "size_bytes": 110},
        {"name": "/d/out", "size_bytes": 20},
    ]


def test_what_no_segment_tells_is_taken_from_the_computations(tmp_path: Path) -> None:
    text = HEAD.format(ranks=1, job=1)
    text += counters(0, 7, "/d/in", BYTES_READ=10, MAX_BYTE_READ=9, F_READ_TIME=2, F_META_TIME=1.0)
    text += counters(0, 9, "/d/more", BYTES_READ=5, MAX_BYTE_READ=4, F_READ_TIME=3.0)
    text += segments(7, "/d/in", (0, "read", 0, 10, 4.0, 6.0))
    (task,) = traced(tmp_path, text)["tasks"]
    assert operations(task) == [
        ("read", "/d/more", 0, 5),
        ("compute", 2.0),
        ("read", "/d/in", 0, 10),
        ("compute", 2.0),
    ]


def test_ranks_get_of_a_shared_file_what_they_wrote_and_read(tmp_path: Path) -> None:
    first = HEAD.format(ranks=2, job=1)
    first += counters(-1, 7, "/d/a", BYTES_WRITTEN=30, MAX_BYTE_WRITTEN=29, F_WRITE_TIME=2.0)
    first += segments(
        *(7, "/d/a"),
        (0, "write", 0, 10, 1.0, 2.0),
        (0, "write", 20, 10, 3.0, 4.0),
        (1, "write", 10, 10, 1.0, 2.0),
    )
    second = HEAD.format(ranks=2, job=2).replace("time: 1000", "time: 2000")
    second += counters(-1, 7, "/d/a", BYTES_READ=25, MAX_BYTE_READ=24, F_READ_TIME=1.0)
    second += segments(7, "/d/a", (1, "read", 5, 20, 1.0, 2.0), (0, "read", 0, 5, 1.0, 2.0))
    tasks = {task["name"]: operations(task) for task in traced(tmp_path, first, second)["tasks"]}
    reads = {name: [one for one in done if one[0] == "read"] for name, done in tasks.items()}
    assert [one for one in tasks["job-1.0"] if one[0] == "write"] == [
        ("write", "/d/a#0", 0, 10),
        ("write", "/d/a#0", 10, 10),
    ]
    assert [one for one in tasks["job-1.1"] if one[0] == "write"] == [("write", "/d/a#1", 0, 10)]
    assert reads["job-2.0"] == [("read", "/d/a#0", 0, 5)]
    assert reads["job-2.1"] == [
        ("read", "/d/a#0", 5, 5),
        ("read", "/d/a#1", 0, 10),
        ("read", "/d/a#0", 10, 5),
    ]


def test_a_rank_reads_what_it_wrote_itself(tmp_path: Path) -> None:
    text = HEAD.format(ranks=1, job=1)
    moved = {"BYTES_READ": 10, "BYTES_WRITTEN": 20, "MAX_BYTE_READ": 9, "MAX_BYTE_WRITTEN": 9}
    text += counters(0, 7, "/d/a", **moved)
    text += segments(
        *(7, "/d/a"),
        (0, "write", 0, 10, 0.0, 1.0),
        (0, "read", 0, 10, 2.0, 3.0),
        (0, "write", 0, 10, 4.0, 10.0),
    )
    made = traced(tmp_path, text)
    assert operations(made["tasks"][0]) == [
        ("write", "/d/a", 0, 10),
        ("compute", 1.0),
        ("read", "/d/a", 0, 10),
        ("compute", 1.0),
        ("write", "/d/a", 0, 10),
    ]
    assert made["files"] == [{"name": "/d/a", "size_bytes": 10}]


def test_tracing_that_ended_too_early_gives_way_to_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD.format(ranks=1, job=1)
    text += counters(0, 7, "/d/in", BYTES_READ=30, MAX_BYTE_READ=29, F_READ_TIME=2.0)
    text += segments(7, "/d/in", (0, "read", 0, 10, 1.0, 2.0))
    (task,) = traced(tmp_path, text)["tasks"]
    assert operations(task) == [("read", "/d/in", 0, 30), ("compute", 8.0)]
    assert "extended tracing ended before /d/in was closed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" X_POSIX 0 read 0 0 10 1.0 2.0\n", "line 10: of which file is not told"),
        (segments(7, "/d/in", (0, "read", 0, 10, 2.0, 1.0)), "makes no sense"),
        (segments(7, "/d/in", (0, "read", -1, 10, 1.0, 2.0)), "line 12: a read of 10 bytes at -1"),
        (segments(7, "/d/in", (0, "look", 0, 10, 1.0, 2.0)), "no segment of extended tracing"),
        ("# DXT, file_id: 7, file_name: /d/in\n X_POSIX 0 read\n", "line 11: no segment"),
    ],
)
def test_tracing_that_cannot_be_used(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.txt"
    head = HEAD.format(ranks=1, job=1)
    log.write_text(head + counters(0, 7, "/d/in", BYTES_READ=10, MAX_BYTE_READ=9) + text)
    assert command.main([str(log)]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert str(log) in told


def test_tracing_without_counters_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.txt"
    log.write_text(HEAD.format(ranks=1, job=1) + segments(7, "/a", (0, "read", 0, 1, 1.0, 2.0)))
    assert command.main([str(log)]) == 1
    assert "darshan-parser LOG; darshan-dxt-parser LOG" in capsys.readouterr().err


def test_a_binary_log_has_its_tracing_read(tmp_path: Path) -> None:
    require(importlib.util.find_spec("darshan"), "PyDarshan is missing (pip install darshan)")
    logs = resources.files("darshan.examples") / "example_logs"
    out = tmp_path / "workload.json"
    with resources.as_file(logs / "dxt.darshan") as log:
        assert command.main([str(log), "--below", "/", "--out", str(out)]) == 0
    (task,) = json.loads(out.read_text())["tasks"]
    done = operations(task)
    kinds = [one[0] for one in done]
    assert kinds.count("compute") > 10, "pauses between reads and writes are kept"
    assert 0 < sum(one[1] for one in done if one[0] == "compute") <= 1469
    assert {"read", "write"} < set(kinds)


def test_extents_are_found_and_cut() -> None:
    made = Extents((Extent(10, 20, "a", 0), Extent(20, 30, "a", 10), Extent(0, 40, "b", 100)))
    assert list(made) == [
        Extent(0, 10, "b", 100),
        Extent(10, 30, "a", 0),
        Extent(30, 40, "b", 130),
    ]
    assert list(made.within(25, 35)) == [Extent(25, 30, "a", 15), Extent(30, 35, "b", 130)]
    assert list(made.within(40, 50)) == []
    assert list(made.gaps(35, 50)) == [(40, 50)]
    assert list(made.gaps(5, 35)) == []
