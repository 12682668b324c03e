"""The notebook API and the commands against the real simulator."""

import doctest
import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from intarsia import simulate
from intarsia.simulate import SimulationError, failures
from intarsia.simulate.__main__ import main
from intarsia.simulate.binary import locate
from intarsia.simulate.failures.toml import as_toml, failures_table
from intarsia.simulate.studies import BUILT_IN
from intarsia.simulate.studies.published import EFFICIENCY_BY_EQUATIONS, NODES_OF_TABLE
from simulator import real_binary


@pytest.fixture(autouse=True)
def binary(monkeypatch: pytest.MonkeyPatch) -> Path:
    path = real_binary()
    monkeypatch.setenv("INTARSIA_BIN", str(path))
    return path


def test_a_checkpoint_run_has_estimates_with_units_and_intervals() -> None:
    result = simulate.checkpoint("rxsim-dfs", machine__nodes=65_536, run={"replications": 4})
    expected = dict(zip(NODES_OF_TABLE, EFFICIENCY_BY_EQUATIONS["dfs"], strict=True))
    assert result["efficiency"].mean == pytest.approx(expected[65_536], abs=0.02)
    assert result["efficiency"].n == 4
    assert result["efficiency"].low < result["efficiency"].mean < result["efficiency"].high
    assert result.derived["checkpoint_interval"].unit == "s"
    assert result.scenario["machine"]["nodes"] == 65_536
    assert "efficiency" in str(result)
    assert "<table>" in result._repr_html_()
    assert list(result.to_frame().columns) == ["estimate", "mean", "half_width", "n", "unit"]
    with pytest.raises(KeyError, match=r"no estimate 'speed'; there are: .*efficiency"):
        result["speed"]


def test_a_scale_run_gives_rates() -> None:
    result = simulate.scale("fusionsim-bgp", nodes__count=256)
    assert result["write.throughput"].unit == "B/s"
    assert result["write.throughput"].mean > 1e9


def test_a_sweep_runs_every_combination(tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {
        "machine.nodes": [1_024, 65_536],
        "checkpoint.interval": ["young", "6 h"],
    }
    frame = simulate.sweep(
        "checkpoint", "rxsim-pfs", axes, directory=tmp_path, quiet=True, run__replications=2
    )
    assert len(frame) == 4
    efficiency = frame.set_index(list(axes))["efficiency"]
    assert efficiency[1_024, "young"] > efficiency[65_536, "young"]
    assert len(list(tmp_path.iterdir())) == 4


def test_the_message_of_the_binary_names_the_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('preset = "rxsim-pfs"\n[machine]\nnodes = "many"\n')
    with pytest.raises(SimulationError, match=r"mine\.toml:3:9: machine\.nodes"):
        simulate.checkpoint(file)
    with pytest.raises(SimulationError, match="there is no preset 'rxsim-psf'"):
        simulate.checkpoint("rxsim-psf")
    with pytest.raises(SimulationError, match=r"machine\.node: unknown field"):
        simulate.checkpoint("rxsim-pfs", machine__node=3)


def test_a_fit_is_a_valid_scenario(tmp_path: Path) -> None:
    records = failures.lanl()
    lifetime = failures.fit(failures.system_gaps(records, "20"))
    table = failures_table(
        lifetime,
        source=failures.LANL_CITATION,
        nodes=512,
        repair=failures.fit(failures.repair_hours(records, "20"), failures.Family.LOG_NORMAL),
        bursts=failures.burst_sizes(records, "20"),
        goodness=failures.goodness(lifetime, resamples=19),
    )
    file = tmp_path / "fitted.toml"
    base = '[machine]\nnodes = 512\n[workload]\nwalltime = "1 day"\n[run]\nhorizon = "1 year"\n'
    file.write_text(base + as_toml(table))
    assert tomllib.loads(file.read_text())["failures"]["scope"] == "system"
    result = simulate.checkpoint(file, run__replications=3)
    assert result.derived["machine_mtbf"].mean == pytest.approx(lifetime.mean_hours * 3600)
    assert 0 < result["efficiency"].mean < 1


def test_recorded_failures_are_replayed(tmp_path: Path) -> None:
    records = failures.select_system(failures.lanl(), "20")
    replay = tmp_path / "failures.csv"
    assert main(["fit", "--system", "20", "--resamples", "9", "--replay", str(replay)]) == 0
    file = tmp_path / "replayed.toml"
    years = (records["started"].max() - records["started"].min()).days / 365 + 0.1
    file.write_text(
        f'[machine]\nnodes = 512\n[failures]\nreplay = "failures.csv"\n'
        f'[workload]\nwalltime = "1 day"\n[run]\nhorizon = "{years} years"\nreplications = 2\n'
    )
    result = simulate.checkpoint(file)
    # Records of one node at one time are one failure, and so are those of several nodes.
    assert result["failures"].mean == records["started"].nunique()
    assert result["failures"].half_width == 0


@pytest.mark.parametrize("family", failures.Family)
def test_every_family_is_known_to_the_simulator(tmp_path: Path, family: failures.Family) -> None:
    fitted = failures.fit(failures.system_gaps(failures.lanl(), "3"), family)
    file = tmp_path / "fitted.toml"
    text = as_toml(failures_table(fitted, source="LANL"))
    file.write_text('[machine]\nnodes = 1\n[workload]\nwalltime = "1 h"\n' + text)
    found = simulate.checkpoint(file, run__replications=1, run__horizon="1 day")
    assert found.derived["machine_mtbf"].mean == pytest.approx(fitted.mean_hours * 3600)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_scenario_of_a_built_in_study_is_accepted(binary: Path, name: str) -> None:
    points = BUILT_IN[name].points(False)
    labels = {tuple(point.labels.items()) for point in points}
    assert len(labels) == len(points)
    # Checking all of them takes a process each; every seventh meets all kinds.
    found = locate()
    for point in points[::7]:
        point.key(found)


def test_a_built_in_study_runs_from_the_binary(binary: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "INTARSIA_PYTHON": sys.executable}
    command = [
        str(binary),
        "simulate",
        "study",
        "intervals",
        "--quick",
        "--out",
        str(tmp_path),
        "--quiet",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "report.html")
    table = pd.read_csv(tmp_path / "tables" / "exponential.csv")
    assert (table["interval (s)"] - table["expected interval (s)"]).abs().max() <= 1
    assert (table["formula (%)"] - table["expected (%)"]).abs().max() < 0.01
    # Of 24 intervals at 95 %, in eight groups that share their random numbers.
    assert (table["inside the interval"] == "yes").sum() >= 15
    assert (tmp_path / "figures" / "interval-curves.png").stat().st_size > 50_000


def test_the_binary_passes_help_and_failures_on(binary: Path) -> None:
    environment = {**os.environ, "INTARSIA_PYTHON": sys.executable}
    command = [str(binary), "simulate", "fit", "--help"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "--per-node" in shown.stdout
    command = [str(binary), "simulate", "fit", "--system", "1"]
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "no records of system 1" in failed.stderr


def test_the_example_notebook_runs() -> None:
    notebook = Path(__file__).parents[2] / "docs" / "user" / "simulate-notebook.ipynb"
    cells = json.loads(notebook.read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            lines = [line for line in cell["source"] if not line.startswith("%")]
            exec("".join(lines), names)
    best = {name: row["efficiency"] for name, row in names["best"].items()}
    assert best["central file system"] < best["local disks first"]


MODULES = ["api", "failures.fit", "failures.gaps", "failures.records", "failures.replay"]
MODULES += ["report.style"]
MODULES += ["report.write", "result", "scenario", "study.point"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"intarsia.simulate.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_an_unknown_command_ends_with_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fitt"])
    assert ended.value.code == 2
    assert "fitt" in capsys.readouterr().err
