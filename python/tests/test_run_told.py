"""What a run tells in files and on its outputs, also where these take nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from intarsia.run.__main__ import main
from intarsia.run.graph import GraphError
from intarsia.run.told import Told

RUN = [sys.executable, "-m", "intarsia.run", "w.yaml"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a workflow, from which it runs."""
    monkeypatch.chdir(tmp_path)
    task = {"command": "echo > a", "outputs": ["a"]}
    (tmp_path / "w.yaml").write_text(json.dumps({"tasks": {"a": task}}))
    return tmp_path


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--record=none/r.json", "--record none/r.json: {0}/none is not there"),
        ("--trace=.", "--trace .: is a directory; name a file"),
        ("--trace=w.yaml/t", "--trace w.yaml/t: {0}/w.yaml is no directory"),
        ("--report=w.yaml/page", "--report w.yaml/page: {0}/w.yaml is no directory"),
    ],
)
def test_where_nothing_can_be_written_is_told_before_the_run(
    option: str, said: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["w.yaml", option]) == 2
    assert capsys.readouterr().err == f"error: {said.format(directory)}\n"
    assert not (directory / "a").exists()


def test_what_is_there_or_can_be_made_may_be_written(tmp_path: Path) -> None:
    Told(Path("/dev/null"), None, tmp_path / "new/page").require_places()
    with pytest.raises(GraphError, match="/proc/none is not there"):
        Told(Path("/proc/none/r.json"), None, None).require_places()


def test_a_run_is_told_although_its_record_cannot_be_written(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["w.yaml", "--record=/dev/full", f"--trace={directory}/t.json"]) == 1
    said = capsys.readouterr().err
    assert "1 tasks: 1 done" in said
    assert "error: --record /dev/full: No space left on device" in said
    assert (directory / "t.json").exists()


def test_what_standard_output_does_not_take_is_told_and_the_run_is_done(directory: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*RUN, "--json"], stdout=full, stderr=subprocess.PIPE, text=True)
        looked = subprocess.run([*RUN, "--dry-run"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == looked.returncode == 1
    *said, last = done.stderr.splitlines()
    assert "1 tasks: 1 done" in said[0]
    assert last == "error: standard output: No space left on device"
    assert looked.stderr.count("\n") == 1
    assert "standard output" in looked.stderr


def test_a_run_needs_no_standard_streams(directory: Path) -> None:
    closed = subprocess.run(["/bin/sh", "-c", '"$@" --json <&- >&- 2>&-', "sh", *RUN])
    assert closed.returncode == 0
    assert (directory / "a").exists()


def test_a_look_at_what_would_run_makes_nothing(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["w.yaml", "--dry-run"]) == 0
    assert "1 of 1 tasks would run" in capsys.readouterr().out
    assert [path.name for path in directory.iterdir()] == ["w.yaml"]


def test_directories_are_no_inputs_and_no_outputs(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "in").mkdir()
    (directory / "out").mkdir()
    tasks = {
        "a": {"command": "mkdir b", "inputs": ["in"], "outputs": ["b"]},
        "c": {"command": "true", "outputs": ["out"]},
    }
    (directory / "w.yaml").write_text(json.dumps({"tasks": tasks}))
    assert main(["w.yaml", "--keep-going"]) == 1
    said = capsys.readouterr().err
    assert "warning: task a: field 'inputs': in is a directory" in said
    advice = "is a directory: outputs are files, so name those in it"
    assert f"task a failed: ended well but did not make b, which {advice}" in said
    assert f"task c failed: out {advice}" in said


@pytest.mark.parametrize("output", ["w.yaml", ".run-w/journal", "../{0.name}/w.yaml"])
def test_what_the_run_needs_is_no_output(
    output: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = {"command": "true", "outputs": [output.format(directory)]}
    (directory / "w.yaml").write_text(json.dumps({"tasks": {"a": task}}))
    assert main(["w.yaml"]) == 2
    assert "is what the run itself needs" in capsys.readouterr().err
    assert (directory / "w.yaml").exists()


def test_a_run_directory_that_goes_meanwhile_is_told(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = {"command": "rm -r .run-w; echo > a", "outputs": ["a"]}
    (directory / "w.yaml").write_text(json.dumps({"tasks": {"a": task}}))
    assert main(["w.yaml"]) == 0
    said = capsys.readouterr().err
    assert f"the run directory {directory}/.run-w was removed meanwhile: the next run" in said


def test_names_may_be_of_any_bytes(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = b"all: b\xff\n\tcp $< $@\nb\xff:\n\techo > $@\n"
    (directory / "Makefile").write_bytes(text)
    options = ["--record=r.json", "--trace=t.json", "--report=page", "--json"]
    assert main(["Makefile", *options]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"]["done"] == 2
    paths = {
        one["path"]
        for one in json.loads((directory / "r.json").read_text())["workflow"]["specification"][
            "files"
        ]
    }
    assert paths == {"b\udcff", "all"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shell", "ssh"], "argument --shell: 'ssh' has no {host} for the host's name"),
        (["--shell", "ssh '{host}"], "is no command: No closing quotation"),
        (["--scheduler", "node01"], "'node01': an address with a port is expected, as in tcp://"),
    ],
)
def test_words_that_reach_no_host_are_refused_before_anything_begins(
    options: list[str], said: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["w.yaml", *options])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_an_address_of_another_host_is_named(directory: Path) -> None:
    # None is given to hosts, for documentation has it.
    words = [*RUN, "--hosts=a", "--shell=sh {host}", "--address=192.0.2.1"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: no scheduler can listen at 192.0.2.1: ")
    assert done.stderr.endswith("give an address of this host by --address\n")
