"""`intarsia trace`: one workload from records of several kinds, and what is refused."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from intarsia.trace import __main__ as command
from intarsia.trace.calls import calls, text_of
from intarsia.trace.errors import TraceError
from intarsia.trace.strace import read_strace
from requirements import require

# A shell begins two programs; the first writes and renames, the second reads what it made.
STRACE = """\
10 1700000000.000000 execve("/bin/sh", ["sh"], 0x1 /* 3 vars */) = 0 <0.001000>
10 1700000000.010000 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 11 <0.000100>
11 1700000000.020000 execve("/usr/bin/make", ["make"], 0x1 /* 3 vars */) = 0 <0.001000>
10 1700000000.020000 wait4(-1,  <unfinished ...>
11 1700000000.521000 openat(AT_FDCWD</w>, "a, b.tmp", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</w/a, b.tmp> <0.000100>
11 1700000000.522000 write(3</w/a, b.tmp>, "x\\"(<"..., 4096) = 4096 <0.000200>
11 1700000000.522300 write(3</w/a, b.tmp>, "x"..., 4096) = 1000 <0.000200>
11 1700000000.522600 close(3</w/a, b.tmp>) = 0 <0.000010>
11 1700000000.523000 rename("/w/a, b.tmp", "/w/a") = 0 <0.000010>
11 1700000000.524000 +++ exited with 0 +++
10 1700000000.524100 <... wait4 resumed>[{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 11 <0.504100>
10 1700000000.524200 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
10 1700000000.525000 vfork() = 12 <0.000100>
12 1700000000.526000 execve("/usr/bin/use", ["use"], 0x1 /* 3 vars */) = 0 <0.001000>
12 1700000000.530000 openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a> <0.000100>
12 1700000000.530200 pread64(3</w/a>, "x"..., 1000, 96) = 1000 <0.000200>
12 1700000000.530500 openat(AT_FDCWD</w>, "missing", O_RDONLY) = -1 ENOENT (No such file) <0.000010>
12 1700000000.531000 openat(AT_FDCWD</w>, "log", O_WRONLY|O_CREAT|O_APPEND, 0666) = 4</w/log> <0.000100>
12 1700000000.531200 write(4</w/log>, "x"..., 10) = 10 <0.000200>
12 1700000000.532000 read(5</etc/passwd>, "x"..., 10) = 10 <0.000200>
12 1700000000.932000 +++ exited with 0 +++
10 1700000000.933000 +++ exited with 0 +++
"""  # noqa: E501

DARSHAN = """\
# darshan log version: 3.41
# exe: /bin/{name} --all
# start_time: {start}
# nprocs: {ranks}
# jobid: {job}
# run time: 10.0
#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>
"""


def trace(*words: object) -> int:
    return command.main([str(word) for word in words])


def operations(task: Any, kind: str) -> list[tuple[Any, ...]]:
    return [
        (one[kind], one.get("offset_bytes"), one.get("size_bytes"))
        for one in task["operations"]
        if kind in one
    ]


def rows(rank: int, path: str, **counters: float) -> str:
    return "".join(
        f"POSIX\t{rank}\t{abs(hash(path))}\tPOSIX_{name}\t{value}\t{path}\t/\text4\n"
        for name, value in counters.items()
    )


def test_processes_become_tasks_with_their_files() -> None:
    workload = read_strace("log", STRACE, "/w")
    assert [(task.name, task.stage) for task in workload.tasks] == [
        ("make-1", "make"),
        ("use-1", "use"),
    ]
    assert workload.parents() == {"make-1": set(), "use-1": {"make-1"}}
    made = workload.native()
    make, use = made["tasks"]
    # The file is known by the name under which it was written; the rename is followed.
    assert operations(make, "write") == [("a, b.tmp", 0, 5096)]
    assert operations(use, "read") == [("a, b.tmp", 96, 1000)]
    assert operations(use, "write") == [("log", 0, 10)]
    assert {one["name"]: one["size_bytes"] for one in made["files"]} == {
        "a, b.tmp": 5096,
        "log": 10,
    }


def test_what_lies_between_calls_is_computation() -> None:
    make, use = read_strace("log", STRACE, "/w").tasks
    assert make.compute_s == pytest.approx(0.5028, abs=1e-3)
    assert use.compute_s == pytest.approx(0.4055, abs=1e-3)


def test_a_file_that_is_written_anew_is_another_one() -> None:
    again = STRACE + (
        '13 1700000001.000000 execve("/bin/more", ["more"], 0x1) = 0 <0.001000>\n'
        '13 1700000001.100000 openat(AT_FDCWD</w>, "log", O_WRONLY|O_APPEND) = 3</w/log> <0.0001>\n'
        '13 1700000001.200000 write(3</w/log>, "x", 5) = 5 <0.000100>\n'
        "13 1700000001.300000 +++ exited with 0 +++\n"
    )
    workload = read_strace("log", again, "/w")
    assert workload.tasks[-1].files("write") == {"log@2": 15}
    assert any("written anew" in warning for warning in workload.warnings)


def test_threads_are_one_process_and_share_files() -> None:
    text = (
        '1 1700000000.000000 execve("/bin/t", ["t"], 0x1) = 0 <0.001000>\n'
        '1 1700000000.100000 openat(AT_FDCWD</w>, "in", O_RDONLY) = 3 <0.000100>\n'
        "1 1700000000.200000 clone(child_stack=0x1, flags=CLONE_FILES|CLONE_THREAD) = 2 <0.0001>\n"
        '2 1700000000.300000 read(3, "x"..., 100) = 100 <0.000100>\n'
        '1 1700000000.400000 read(3, "x"..., 100) = 100 <0.000100>\n'
    )
    (task,) = read_strace("log", text, "/w").tasks
    assert task.files("read") == {"in": 200}


def test_a_log_that_was_cut_off_is_read_with_a_warning() -> None:
    cut = STRACE[: STRACE.index("12 1700000000.932000") + 9]
    workload = read_strace("log", cut, "/w")
    assert len(workload.tasks) == 2
    assert any("ends within a line" in warning for warning in workload.warnings)
    open_call = STRACE.replace(
        '12 1700000000.532000 read(5</etc/passwd>, "x"..., 10) = 10 <0.000200>',
        "12 1700000000.532000 read(5</etc/passwd>,  <unfinished ...>",
    )
    warnings = read_strace("log", open_call, "/w").warnings
    assert any("log:20: read never returned" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "log: line 1: no line of strace"),
        ('10 open("/w/a", O_RDONLY) = 3\n', "log: line 1: no Unix time"),
        ('10 12:00:00 open("/w/a", O_RDONLY) = 3\n', "log: line 1: no Unix time"),
        ('10 1700000000.1 open("/w/a", O_RDONLY) = 3\n', "log: line 1: no time in the call"),
        (STRACE.replace("/w", "/v"), "log: no process reads or writes a file below /w"),
        (STRACE.replace("1000, 96)", "1000, -96)"), "log: line 16: pread64: the offset '-96'"),
    ],
)
def test_logs_that_cannot_be_used(text: str, said: str) -> None:
    with pytest.raises(TraceError) as refused:
        read_strace("log", text, "/w")
    assert said in str(refused.value)
    assert "help: " in str(refused.value) or "offset" in said


def test_texts_of_strace() -> None:
    assert text_of(r'"a\"b\\c"') == 'a"b\\c'
    (call,) = calls("log", '1 1700000000.5 open("a,)(", O_RDONLY) = 3 <0.1>\n', [])
    assert call.arguments == ('"a,)("', "O_RDONLY")


def test_jobs_of_darshan_follow_each_other_by_their_files(tmp_path: Path) -> None:
    first, second = tmp_path / "1.txt", tmp_path / "2.txt"
    head = DARSHAN.format(name="make", start=100, ranks=2, job=1)
    first.write_text(
        head + rows(-1, "/d/a", BYTES_WRITTEN=100, MAX_BYTE_WRITTEN=99, F_WRITE_TIME=4.0)
    )
    head = DARSHAN.format(name="use", start=100, ranks=1, job=2)
    second.write_text(head + rows(0, "/d/a", BYTES_READ=60, MAX_BYTE_READ=59, F_READ_TIME=1.0))
    out = tmp_path / "w.json"
    assert trace(second, first, "--out", out) == 0
    tasks = {task["name"]: task for task in json.loads(out.read_text())["tasks"]}
    assert operations(tasks["make-1.0"], "write") == [("/d/a#0", 0, 50)]
    assert operations(tasks["make-1.1"], "write") == [("/d/a#1", 0, 50)]
    assert operations(tasks["use-2"], "read") == [("/d/a#0", 0, 50), ("/d/a#1", 0, 10)]
    assert {"compute_seconds": 8.0} in tasks["make-1.0"]["operations"]
    assert {"compute_seconds": 9.0} in tasks["use-2"]["operations"]


def test_counters_of_darshan_that_were_not_measured_are_missing(tmp_path: Path) -> None:
    log, out = tmp_path / "log.txt", tmp_path / "w.json"
    # -1 stands for what was not measured; a clock that was set gives a time a little below 0.
    unknown = {"BYTES_WRITTEN": -1, "MAX_BYTE_WRITTEN": -1, "F_WRITE_TIME": -1}
    known = {"BYTES_READ": 60, "MAX_BYTE_READ": 59, "F_READ_TIME": 1.0}
    log.write_text(HEAD + rows(0, "/d/a", **known, **unknown, F_META_TIME=-1.1e-05))
    assert trace(log, "--out", out) == 0
    (task,) = json.loads(out.read_text())["tasks"]
    assert operations(task, "read") == [("/d/a", 0, 60)]
    assert operations(task, "write") == []
    assert {"compute_seconds": 9.0} in task["operations"]


def test_binary_logs_of_darshan_are_read_by_pydarshan(tmp_path: Path) -> None:
    require(importlib.util.find_spec("darshan"), "PyDarshan is missing (pip install darshan)")
    logs = sorted((Path(__file__).parent / "data/darshan").glob("*.darshan"))
    out = tmp_path / "w.json"
    assert trace(*logs, "--out", out) == 0
    made = json.loads(out.read_text())
    tasks = {task["name"]: task for task in made["tasks"]}
    assert sorted(tasks) == [
        *("app_readAB_writeC-3.0", "app_readAB_writeC-3.1"),
        *("app_readAB_writeC-3.2", "app_readAB_writeC-3.3"),
        *("app_write-1", "app_write-2"),
    ]
    sizes = {Path(file["name"]).name: file["size_bytes"] for file in made["files"]}
    assert (sizes["A"], sizes["B"]) == (10_000, 10_000)
    assert sum(size for name, size in sizes.items() if name.startswith("C#")) == 8_000
    # Ranks read what the first two jobs wrote, 5,000 bytes each.
    read = [
        one for rank in range(4) for one in operations(tasks[f"app_readAB_writeC-3.{rank}"], "read")
    ]
    assert sorted((Path(name).name, size) for name, _, size in read) == [
        *[("A", 5_000)] * 2,
        *[("B", 5_000)] * 2,
    ]
    assert all(
        0 < one["compute_seconds"] < 1
        for task in tasks.values()
        for one in task["operations"]
        if "compute_seconds" in one
    )


def test_a_binary_log_that_is_cut_short_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require(importlib.util.find_spec("darshan"), "PyDarshan is missing (pip install darshan)")
    whole = Path(__file__).parent / "data/darshan/read-ab-write-c.darshan"
    cut = tmp_path / "cut.darshan"
    cut.write_bytes(whole.read_bytes()[:700])
    assert trace(cut) == 1
    told = capsys.readouterr().err
    assert f"{cut}: PyDarshan cannot read it" in told
    assert "is it whole?" in told


HEAD = DARSHAN.format(name="job", start=1, ranks=1, job=1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD.replace("3.41", "9.0"), "header: version 9.0 of Darshan is unknown"),
        (HEAD.replace("# nprocs: 1\n", ""), "header: no 'nprocs'"),
        (HEAD + "POSIX\t0\t1\tPOSIX_OPENS\n", "line 8: 4 columns instead of 8"),
        (HEAD + rows(0, "/a", BYTES_READ=-5), "/a: BYTES_READ of rank 0 is negative"),
        (HEAD + rows(0, "/a", BYTES_READ=5).replace("5\t/a", "x\t/a"), "'x' is no number"),
        (HEAD + rows(0, "/a", BYTES_READ=5)[:-3], "line 8: the text ends within a line"),
        (HEAD, "no file below / is read or written"),
    ],
)
def test_darshan_that_cannot_be_used(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text)
    assert trace(log) == 1
    told = capsys.readouterr().err
    assert str(log) in told
    assert said in told


def instance(**changed: Any) -> dict[str, Any]:
    """Two tasks, of which the second reads what the first makes."""
    tasks = [
        {
            "name": "a",
            "id": "a",
            "parents": [],
            "children": ["b"],
            "inputFiles": ["i"],
            "outputFiles": ["m"],
        },
        {
            "name": "b",
            "id": "b",
            "parents": ["a"],
            "children": [],
            "inputFiles": ["m"],
            "outputFiles": ["o"],
        },
    ]
    files = [{"id": name, "sizeInBytes": size} for name, size in (("i", 10), ("m", 20), ("o", 30))]
    ran = [
        {
            "id": "a",
            "runtimeInSeconds": 4.0,
            "avgCPU": 50.0,
            "executedAt": "2026-01-01T00:00:00+00:00",
            "machines": ["h1"],
        },
        {
            "id": "b",
            "runtimeInSeconds": 2.0,
            "avgCPU": 100.0,
            "executedAt": "2026-01-01T00:00:04+00:00",
            "machines": ["h2"],
        },
    ]
    workflow = {"specification": {"tasks": tasks, "files": files}, "execution": {"tasks": ran}}
    return {"name": "two", "schemaVersion": "1.5", "workflow": workflow} | changed


def test_instances_come_back_as_they_went(tmp_path: Path) -> None:
    source, out = tmp_path / "i.json", tmp_path / "o.json"
    source.write_text(json.dumps(instance()))
    assert trace(source, "--as", "wfformat", "--out", out) == 0
    given = json.loads(source.read_text())["workflow"]["specification"]
    made = json.loads(out.read_text())["workflow"]
    assert made["specification"]["files"] == given["files"]
    assert made["specification"]["tasks"] == given["tasks"]
    assert made["execution"]["makespanInSeconds"] == 6.0
    assert [task["avgCPU"] for task in made["execution"]["tasks"]] == [50.0, 100.0]


def test_chrome_traces_have_hosts_and_times(tmp_path: Path) -> None:
    source, out = tmp_path / "i.json", tmp_path / "o.json"
    source.write_text(json.dumps(instance(schemaVersion="1.6")))
    assert trace(source, "--as", "chrome", "--out", out) == 0
    events = json.loads(out.read_text())["traceEvents"]
    slices = {one["name"]: one for one in events if one["ph"] == "X"}
    assert (slices["b"]["ts"], slices["b"]["dur"]) == (4_000_000, 2_000_000)
    assert {one["args"]["name"] for one in events if one["ph"] == "M"} == {"h1", "h2"}


def test_times_that_nobody_knows_are_as_soon_as_can_be(tmp_path: Path) -> None:
    document = instance()
    for task in document["workflow"]["execution"]["tasks"]:
        del task["executedAt"]
    source, out = tmp_path / "i.json", tmp_path / "o.json"
    source.write_text(json.dumps(document))
    assert trace(source, "--as", "chrome", "--out", out) == 0
    slices = {
        one["name"]: one for one in json.loads(out.read_text())["traceEvents"] if one["ph"] == "X"
    }
    assert (slices["b"]["ts"], slices["b"]["dur"]) == (2_000_000, 2_000_000)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schemaVersion": "2.0"}, "'2.0' is unknown"),
        ({"workflow": {}}, "field 'workflow.specification' is missing"),
    ],
)
def test_instances_that_cannot_be_used(
    change: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "i.json"
    source.write_text(json.dumps(instance(**change)))
    assert trace(source) == 1
    assert said in capsys.readouterr().err


def test_circles_and_bad_times_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = instance()
    document["workflow"]["specification"]["tasks"][0]["parents"] = ["b"]
    source = tmp_path / "i.json"
    source.write_text(json.dumps(document))
    assert trace(source) == 1
    assert "wait for each other: " in capsys.readouterr().err
    document = instance()
    document["workflow"]["execution"]["tasks"][0]["executedAt"] = "yesterday"
    source.write_text(json.dumps(document))
    assert trace(source) == 1
    assert "task a: field 'executedAt': 'yesterday'" in capsys.readouterr().err


def test_processes_that_write_for_each_other_are_refused_or_one(tmp_path: Path) -> None:
    text = ""
    for at, (pid, own, other) in enumerate(((1, "a", "b"), (2, "b", "a"))):
        first, then = f"{pid} 170000000{at}", f"{pid} 170000001{at}"
        text += f'{first}.0 openat(AT_FDCWD</w>, "{own}", O_WRONLY|O_CREAT) = 3</w/{own}> <0.1>\n'
        text += f'{first}.5 write(3</w/{own}>, "x", 1) = 1 <0.1>\n'
        text += f'{then}.0 openat(AT_FDCWD</w>, "{other}", O_RDONLY) = 4</w/{other}> <0.1>\n'
        text += f'{then}.5 read(4</w/{other}>, "x", 1) = 1 <0.1>\n'
    with pytest.raises(TraceError, match="in a circle"):
        read_strace("log", text, "/w").check("log")
    read_strace("log", text, "/w", whole=True).check("log")


def test_an_empty_or_strange_record_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, strange = tmp_path / "empty", tmp_path / "strange.json"
    empty.write_text("")
    strange.write_text("{}")
    assert trace(empty) == 1
    assert f"{empty}: is empty" in capsys.readouterr().err
    assert trace(strange) == 1
    assert "field 'schemaVersion'" in capsys.readouterr().err
    assert trace(tmp_path / "nowhere") == 1
    assert "No such file" in capsys.readouterr().err
