"""Traces in the forms in which they are published, and what their windows must give."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from intarsia.characterise.__main__ import main
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.workload import Format, read, summarise, windows
from intarsia.characterise.workload.diskstats import between, parse

MSR = """\
128166372003061629,web,0,Read,7014609920,24576,41286
128166372016382155,web,0,Write,1317441536,8192,1963
128166372026382245,web,1,Read,2436440064,4096,19437
"""
ALIBABA = """\
419,W,8792731648,16384,1577808144360767
725,R,59110326272,360448,1577808144360813
"""
BLKPARSE = """\
  8,0    1        1     0.000000000   697  Q   R 1000 + 8 [dd]
  8,0    1        2     0.000001000   697  G   R 1000 + 8 [dd]
  8,0    1        3     0.000002000   697  D   R 1000 + 8 [dd]
  8,0    1        4     0.004000000     0  C   R 1000 + 8 [0]
  8,0    1        5     0.005000000   697  Q  WS 1008 + 16 [dd]
  8,0    1        6     0.007000000     0  C  WS 1008 + 16 [0]
  8,0    1        7     0.008000000   697  Q  WS 5000 + 16 [dd]
CPU0 (sda):
"""
FIO = """\
10, 2000000, 0, 4096, 0, 0
12, 1000000, 1, 8192, 1048576, 0
14, 1000000, 2, 4096, 0, 0
"""


STRACE = """\
7 1700000000.000000 openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a> <0.000010>
7 1700000000.001000 read(3</w/a>, "x"..., 4096) = 4096 <0.002000>
7 1700000000.004000 read(3</w/a>, "x"..., 4096) = 4096 <0.002000>
7 1700000000.007000 pread64(3</w/a>, "x"..., 4096, 1048576) = 4096 <0.002000>
7 1700000000.010000 openat(AT_FDCWD</w>, "b", O_WRONLY|O_CREAT, 0666) = 4</w/b> <0.000010>
7 1700000000.011000 write(4</w/b>, "y"..., 8192) = 8192 <0.004000>
7 1700000000.021000 read(5</etc/passwd>, "r"..., 512) = 512 <0.001000>
7 1700000000.022000 +++ exited with 0 +++
"""


def written(tmp_path: Path, text: str, name: str = "trace.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_msr_traces_count_in_tenths_of_microseconds(tmp_path: Path) -> None:
    records = read(written(tmp_path, MSR))
    assert records.start_s == pytest.approx((0, 1.3320526, 2.3320616))
    assert records.latency_ms == pytest.approx((4.1286, 0.1963, 1.9437))
    assert records.is_read.tolist() == [True, False, True]
    assert records.device.tolist() == ["web.0", "web.0", "web.1"]
    assert len(records.of("web.1")) == 1


def test_alibaba_traces_have_no_latencies(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(ALIBABA.encode()))
    records = read(path)
    assert records.start_s == pytest.approx((0, 46e-6), abs=1e-7)
    assert np.isnan(records.latency_ms).all()
    (window,) = windows(records)
    assert math.isnan(window.outstanding)
    with pytest.raises(CharacteriseError, match="no latencies"):
        window.load()


def test_blkparse_joins_queueing_and_completion(tmp_path: Path) -> None:
    records = read(written(tmp_path, BLKPARSE))
    assert records.latency_ms == pytest.approx((4, 2))
    assert records.bytes.tolist() == [4096, 8192]
    assert records.offset.tolist() == [512000, 516096]


def test_fio_logs_have_the_end_of_a_request(tmp_path: Path) -> None:
    records = read(written(tmp_path, FIO))
    assert records.start_s == pytest.approx((0, 0.003))
    assert records.latency_ms == pytest.approx((2, 1))
    with pytest.raises(CharacteriseError, match="log_offset=1"):
        read(written(tmp_path, "10, 2000000, 0, 4096\n"))


def own(rows: list[tuple[float, bool, int, int, float]]) -> str:
    lines = [
        json.dumps({"at_s": at, "is_write": write, "start": start, "bytes": size, "ms": ms})
        for at, write, start, size, ms in rows
    ]
    return "\n".join(lines) + "\n"


def test_a_log_of_strace_has_the_requests_to_each_file(tmp_path: Path) -> None:
    path = written(tmp_path, STRACE, "LOG")
    records = read(path, below="/w")
    assert records.device.tolist() == ["a", "a", "a", "b"]
    assert records.is_read.tolist() == [True, True, True, False]
    assert records.latency_ms.tolist() == pytest.approx([2, 2, 2, 4])
    (window,) = windows(records, 1.0)
    # In order, far within a file, to another file.
    assert window.random == pytest.approx(100 * 2 / 3)
    assert window.seeks == window.switches == pytest.approx(100 / 3)
    assert len(read(path)) == 5, "all files count without --below"
    with pytest.raises(CharacteriseError, match="say where with --below"):
        read(path, below="/elsewhere")
    cut = written(tmp_path, STRACE.replace(" <0.002000>", ""), "untimed")
    with pytest.raises(CharacteriseError, match="record with -T"):
        read(cut, below="/w")


def test_seeks_within_a_load_and_between_loads_are_told_apart(tmp_path: Path) -> None:
    rows = [
        {"at_s": n * 0.1, "is_write": False, "start": start, "bytes": 4096, "ms": 1.0, "stream": s}
        for n, (start, s) in enumerate(
            [(0, "a"), (4096, "a"), (10**9, "a"), (0, "b"), (4096, "b"), (8192, "b")]
        )
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (window,) = windows(read(written(tmp_path, text)), 1.0)
    assert (window.seeks, window.switches) == (20.0, 20.0)
    assert window.random == 40.0


def test_a_window_has_the_numbers_of_its_load(tmp_path: Path) -> None:
    # Ten requests in order, then one far away, then one near: half a second each, 1 s of latency.
    rows = [(n * 0.5, n % 4 == 3, 4096 * n, 4096, 1000.0) for n in range(10)]
    rows += [(5.0, False, 10_000_000, 4096, 1000.0), (5.5, False, 10_000_000 + 8192, 4096, 1000.0)]
    records = read(written(tmp_path, own(rows)), Format.INTARSIA)
    (window,) = windows(records, 6.0)
    assert window.requests == 12
    assert window.random == pytest.approx(100 / 11), "the near one is no seek"
    assert window.read == pytest.approx(100 * 10 / 12)
    assert window.bytes == 4096
    assert window.outstanding == pytest.approx(12 / 5.5)
    assert window.load().outstanding == pytest.approx(12 / 5.5)
    summary = summarise(records, 2.0)
    assert summary.windows == 3
    assert summary.sizes == {4096: 100.0}
    assert summary.seeks[0] == pytest.approx(100 * 9 / 11)
    assert summary.numbers["read"].p5 <= summary.numbers["read"].p50


def test_the_random_share_of_a_simulated_load_is_found(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    at, rows = 0, []
    for number in range(4000):
        at = int(random.integers(2**38)) if random.random() < 0.3 else at + 8192
        rows.append((number * 0.01, bool(random.random() < 0.25), at, 8192, 20.0))
    summary = summarise(read(written(tmp_path, own(rows))))
    assert summary.numbers["random"].mean == pytest.approx(30, abs=2)
    assert summary.numbers["read"].mean == pytest.approx(75, abs=2)
    assert summary.numbers["outstanding"].mean == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the trace is empty"),
        ("hello world\n", "of no form known"),
        (MSR[:-20], "was the file cut off"),
        (MSR.replace("24576", "-1"), "-1 bytes"),
        (MSR.replace("24576", "24576000000"), "columns and units"),
        (MSR.replace("Write", "Erase"), "neither Read nor Write"),
        (ALIBABA.replace("725,R", "725,X"), "neither R nor W"),
        (own([(0, False, 0, 4096, -1.0)]), "below zero"),
        (MSR.replace("41286", "41286000000000"), "columns and units"),
        (own([(0, False, 0, 4096, 1.0)])[:-9] + "\n", "is the line complete"),
    ],
)
def test_a_bad_trace_is_refused_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CharacteriseError, match=message):
        read(written(tmp_path, text))


def test_a_packed_trace_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress((MSR * 50).encode())[:60])
    with pytest.raises(CharacteriseError, match="cut off"):
        read(path)


def test_what_blktrace_writes_itself_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "sda.blktrace.0"
    path.write_bytes(b"\x07tae" + bytes(44))
    with pytest.raises(CharacteriseError, match="give the output of blkparse -i"):
        read(path)


DISKSTATS = "   8       0 sda 100 0 800 50 40 0 320 20 0 60 {} 0 0 0 0 0 0\n"


def test_diskstats_give_a_load_between_two_looks() -> None:
    before = parse(DISKSTATS.format(70), "sda")
    after = parse("   8       0 sda 130 0 1040 80 50 0 480 40 0 99 1070 0 0 0 0\n", "sda")
    window = between(before, after, 0.0, 2.0)
    assert window is not None
    assert (window.requests, window.read) == (40, 75)
    assert window.bytes == 400 * 512 / 40
    assert window.outstanding == pytest.approx(0.5)
    assert window.latency_ms == pytest.approx(50 / 40)
    assert between(before, before, 0.0, 2.0) is None
    with pytest.raises(CharacteriseError, match="backwards"):
        between(after, before, 0.0, 2.0)
    with pytest.raises(CharacteriseError, match="there are sda"):
        parse(DISKSTATS.format(70), "sdb")


def test_the_command_prints_for_people_and_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, MSR)
    assert main(["workload", str(path)]) == 0
    assert "3 requests of 2 devices (web.0, web.1)" in capsys.readouterr().out
    assert main(["workload", str(path), "--json", "--window", "60"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["each"][0]["requests"] == 3
    assert main(["workload", str(path), "--device-of", "db.0"]) == 1
    assert "the trace has web.0, web.1" in capsys.readouterr().err
    assert main(["workload", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err
