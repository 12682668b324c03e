import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from dask.distributed import LocalCluster
from intarsia import simulate
from intarsia.simulate import SimulationError, binary
from intarsia.simulate.__main__ import main
from intarsia.simulate.report.claims import Claim, Verdict, claims_table, summary_of
from intarsia.simulate.scenario import Scenario
from intarsia.simulate.studies.published import interval_with_machine_mtbf
from intarsia.simulate.study.point import Point, grid
from intarsia.simulate.study.run import _client
from intarsia.simulate.study.store import PointStore
from simulator import StandIn

STUDY = """
[study]
name = "sizes"
kind = "checkpoint"
title = "How large?"
preset = "any"
plot = ["efficiency"]
[study.axes]
"machine.nodes" = [1, 2, 4, 8]
"storage" = ["<disk>", "tape"]
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    directory = tmp_path / "bin"
    directory.mkdir()
    program = StandIn(directory)
    monkeypatch.setenv("INTARSIA_BIN", str(program.path))
    return program


def study_file(tmp_path: Path, text: str = STUDY) -> Path:
    path = tmp_path / "sizes.toml"
    path.write_text(text)
    return path


def contents(directory: Path) -> dict[str, bytes]:
    """Everything that a study wrote except its points, which hold times of day."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.parent.name != "points"
    }


def test_a_study_writes_results_figures_and_one_page(tmp_path: Path, stand_in: StandIn) -> None:
    out = tmp_path / "out"
    assert main(["study", str(study_file(tmp_path)), "--out", str(out), "--quiet"]) == 0
    assert sorted(stand_in.runs()) == [1, 1, 2, 2, 4, 4, 8, 8]
    frame = pd.read_parquet(out / "results.parquet")
    assert list(frame["machine.nodes"]) == [1, 1, 2, 2, 4, 4, 8, 8]
    assert list(frame["storage"]) == ["<disk>", "tape"] * 4
    assert list(frame["efficiency"]) == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    assert set(frame["label"]) == {"simulated"}
    assert pd.read_csv(out / "results.csv").equals(frame)
    in_json = json.loads((out / "results.json").read_text())
    assert in_json["units"]["derived.mtbf"] == "s"
    assert in_json["results"][0]["time_half_width"] is None
    assert (out / "figures" / "efficiency.png").stat().st_size > 10_000
    assert (out / "figures" / "efficiency.svg").read_text().startswith("<?xml")
    page = (out / "report.html").read_text()
    for part in (
        "How large?",
        "data:image/svg+xml;base64,",
        "&lt;disk&gt;",
        "simulated",
        "intarsia 0.0.0",
    ):
        assert part in page
    for outside in ("http://", "https://", "<script", "file://", "<disk>"):
        assert outside not in page


def test_a_finished_study_runs_nothing_again_and_writes_the_same_bytes(
    tmp_path: Path, stand_in: StandIn
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    file = str(study_file(tmp_path))
    assert main(["study", file, "--out", str(one), "--quiet", "--workers", "1"]) == 0
    first = contents(one)
    assert main(["study", file, "--out", str(one), "--quiet"]) == 0
    assert len(stand_in.runs()) == 8
    assert contents(one) == first
    assert main(["study", file, "--out", str(other), "--quiet", "--workers", "4"]) == 0
    assert contents(other) == first


def test_a_killed_study_goes_on_where_it_was(tmp_path: Path, stand_in: StandIn) -> None:
    out = tmp_path / "out"
    words = ["study", str(study_file(tmp_path)), "--out", str(out), "--workers", "1"]
    command = [sys.executable, "-W", "error", "-m", "intarsia.simulate", *words]
    slow = {**os.environ, "STAND_IN_SECONDS": "0.4"}
    running = subprocess.Popen(command, env=slow, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list((out / "points").glob("*.json"))) < 2:
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < deadline, "no point was finished"
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    kept = len(list((out / "points").glob("*.json")))
    assert 2 <= kept < 8
    started = len(stand_in.runs())
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{kept} of 8 points are there already" in again.stderr
    assert len(stand_in.runs()) - started == 8 - kept
    assert len(pd.read_parquet(out / "results.parquet")) == 8


def test_an_interrupted_study_says_how_to_go_on(tmp_path: Path, stand_in: StandIn) -> None:
    words = ["study", str(study_file(tmp_path)), "--out", str(tmp_path / "out")]
    command = [sys.executable, "-W", "error", "-m", "intarsia.simulate", *words]
    slow = {**os.environ, "STAND_IN_SECONDS": "600"}
    running = subprocess.Popen(command, env=slow, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not stand_in.runs():
        assert time.monotonic() < deadline, "nothing was started"
        time.sleep(0.05)
    running.terminate()
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "the same command goes on from here" in said


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"sha256": "0", "envelopes": []}', b"\xff"])
def test_a_damaged_point_is_computed_again(
    tmp_path: Path, stand_in: StandIn, capsys: pytest.CaptureFixture[str], damage: bytes
) -> None:
    out = tmp_path / "out"
    words = ["study", str(study_file(tmp_path)), "--out", str(out)]
    assert main(words) == 0
    path = sorted((out / "points").iterdir())[3]
    path.write_bytes(damage)
    capsys.readouterr()
    assert main(words) == 0
    said = capsys.readouterr().err
    assert f"{path}: damaged" in said
    assert "computed again" in said
    assert len(stand_in.runs()) == 9


def test_a_new_binary_computes_everything_again(tmp_path: Path, stand_in: StandIn) -> None:
    store = PointStore(tmp_path / "points")
    scenario = Scenario.load({"a": 1})
    key = Point("checkpoint", scenario).key(binary.locate())
    store.save(key, [])
    stand_in.path.write_text(stand_in.path.read_text() + "# another build\n")
    assert Point("checkpoint", scenario).key(binary.locate()) != key


def test_a_point_is_known_by_what_it_says_not_how(tmp_path: Path, stand_in: StandIn) -> None:
    found = binary.locate()
    keys = {
        Point("checkpoint", scenario, {"label": str(number)}).key(found)
        for number, scenario in enumerate(
            [
                Scenario.load({"a": 1, "b": 2}),
                Scenario.load({"b": 2, "a": 1}),
                Scenario.load({"b": 2}).override({"a": 1}),
            ]
        )
    }
    assert len(keys) == 1
    assert Point("scale", Scenario.load({"a": 1, "b": 2})).key(found) not in keys
    assert stand_in.runs() == []


def test_a_file_that_a_scenario_names_counts_with_its_content(
    tmp_path: Path, stand_in: StandIn
) -> None:
    (tmp_path / "jobs.swf").write_text("1 0 0")
    file = tmp_path / "scenario.toml"
    file.write_text('trace = "jobs.swf"')
    point = Point("checkpoint", Scenario.load(file))
    before = point.key(binary.locate())
    (tmp_path / "jobs.swf").write_text("2 0 0")
    assert point.key(binary.locate()) != before


def test_a_refused_scenario_stops_the_study_before_it_runs(
    tmp_path: Path, stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "machine.toml"
    base.write_text("[machine]\n")
    text = STUDY.replace('preset = "any"', 'scenario = "machine.toml"').replace("8]", "13]")
    file = study_file(tmp_path, text)
    assert main(["study", str(file), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert f"point machine.nodes 13, storage <disk>: {base}:3:9: machine.nodes: 13" in said
    assert stand_in.runs() == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "sizes"', "", "field `study.name`: missing"),
        ('kind = "checkpoint"', 'kind = "check"', "field `study.kind`: 'check' is no simulator"),
        ('preset = "any"', "", "field `study.scenario`: missing"),
        ('preset = "any"', 'presets = "any"', "field `study.presets`: unknown"),
        ("[1, 2, 4, 8]", "[]", r"field `study.axes.machine.nodes`: \[\] is no list"),
        ('"machine.nodes"', "machine.nodes", "field `study.axes.machine`: a table; quote"),
        (
            '["efficiency"]',
            '["speed"]',
            "there is no estimate `speed` to plot; there are: efficiency, time",
        ),
        ('plot = ["efficiency"]', "plot = 3", "field `study.plot`: 3 is no list"),
        ("[study.axes]", "[study.axes", r"not TOML: .*at line 8"),
        ("[study]", "[studie]\n[study]", "field `studie`: unknown"),
    ],
)
def test_a_bad_study_file_is_refused_with_field_and_reason(
    tmp_path: Path,
    stand_in: StandIn,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    message: str,
) -> None:
    assert old in STUDY
    file = study_file(tmp_path, STUDY.replace(old, new))
    assert main(["study", str(file), "--out", str(tmp_path / "out"), "--quiet"]) == 1
    assert re.search(message, capsys.readouterr().err)


def test_unknown_studies_and_empty_directories_are_refused(
    tmp_path: Path, stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "rxsym", "--out", str(tmp_path)]) == 1
    assert "there is no study 'rxsym'; there are rxsim" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 1
    assert "holds no finished study" in capsys.readouterr().err


def test_a_report_is_written_anew_without_simulating(tmp_path: Path, stand_in: StandIn) -> None:
    out = tmp_path / "out"
    assert main(["study", str(study_file(tmp_path)), "--out", str(out), "--quiet"]) == 0
    first = contents(out)
    (out / "report.html").unlink()
    stand_in.path.unlink()
    assert main(["report", str(out)]) == 0
    assert contents(out) == first


def test_a_scheduler_that_does_not_answer_is_named(
    tmp_path: Path, stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["study", str(study_file(tmp_path)), "--out", str(tmp_path / "out"), "--quiet"]
    assert main([*words, "--scheduler", "tcp://127.0.0.1:1"]) == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in capsys.readouterr().err


def test_a_study_runs_on_a_cluster(tmp_path: Path, stand_in: StandIn) -> None:
    cluster = LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path / "dask"),
    )
    words = ["study", str(study_file(tmp_path)), "--out", str(tmp_path / "out"), "--quiet"]
    with cluster:
        assert main([*words, "--scheduler", cluster.scheduler_address]) == 0
    assert len(stand_in.runs()) == 8
    assert len(pd.read_csv(tmp_path / "out" / "results.csv")) == 8


def test_a_local_run_listens_on_the_loopback_only() -> None:
    """A regression: without a dashboard Dask offered two ports to the network."""
    with _client(None, 1):
        listening = [
            one.laddr.ip
            for one in psutil.Process().net_connections("inet")
            if one.status == psutil.CONN_LISTEN
        ]
    assert set(listening) <= {"127.0.0.1"}


def test_a_sweep_is_a_table_with_units(stand_in: StandIn) -> None:
    frame = simulate.sweep("checkpoint", "any", {"machine.nodes": [2, 4]}, quiet=True, level__x="y")
    assert list(frame["time"]) == [4.0, 8.0]
    assert frame.attrs["units"]["time"] == "s"


def test_claims_are_counted_by_their_verdict() -> None:
    """A regression: numpy's True was counted as neither kept nor missed."""
    verdicts = [
        Verdict.of(np.True_),  # type: ignore[arg-type]
        Verdict.of(True),
        Verdict.of(np.False_),  # type: ignore[arg-type]
        Verdict.of(True, is_simulated=False),
        Verdict.of(True, is_calibrated=True),
        Verdict.of(False, is_calibrated=True),
        Verdict.NOT_POSSIBLE,
    ]
    claims = [
        Claim(name, "", "", verdict, "5 %")
        for name, verdict in zip("ABCDEFG", verdicts, strict=True)
    ]
    assert summary_of(claims) == (
        "2 of 7 published statements are reproduced; only with a constant that was fitted to them: "
        "E; refuted: C, F; not possible here: G; left open by a quick run: D."
    )
    shown = claims_table(claims).frame
    assert list(shown["verdict"][[0, 2, 3, 4]]) == [
        "reproduced", "refuted", "not simulated", "calibrated"
    ]  # fmt: skip
    assert set(shown["tolerance"]) == {"5 %"}


def test_the_interval_by_the_mtbf_of_the_machine() -> None:
    # d = 3,200 s, M = 30,075 s, R = 26,690 s; and d = 80 s, R = 85 s.
    found = [interval_with_machine_mtbf(storage, 2**20, 0.1) for storage in ("pfs", "dfs")]
    assert found[0] == pytest.approx(15_860, abs=5)
    assert found[1] == pytest.approx((2 * 80 * (30_075.07 + 85)) ** 0.5 - 80, rel=1e-4)


def test_a_grid_runs_its_last_axis_fastest() -> None:
    points = grid("scale", Scenario.load("any"), {"a": [1, 2], "b": ["x", "y"]}, {"c": 3})
    assert [tuple(point.labels.values()) for point in points] == [
        (3, 1, "x"),
        (3, 1, "y"),
        (3, 2, "x"),
        (3, 2, "y"),
    ]
    assert points[3].scenario.assignments == ("a=2", 'b="y"')


def test_a_missing_binary_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTARSIA_BIN", "/nonexistent/intarsia")
    with pytest.raises(SimulationError, match="INTARSIA_BIN names /nonexistent/intarsia"):
        simulate.checkpoint("any")
