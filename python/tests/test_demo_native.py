"""Both workflows from end to end on the native file system, with the real programs."""

import json
import os
from pathlib import Path

import pytest
from intarsia.demo.__main__ import EXIT_UNABLE, main
from intarsia.demo.blast import Blast
from intarsia.demo.montage import Montage
from intarsia.demo.workflow import Workflow, missing_programs


@pytest.mark.parametrize("workflow", [Montage(), Blast()], ids=["montage", "blast"])
def test_two_native_runs_agree_and_leave_nothing(
    workflow: Workflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = missing_programs(workflow.programs)
    if missing and os.environ.get("INTARSIA_TEST_REQUIRE_ALL") != "1":
        pytest.skip("SKIPPED: missing " + ", ".join(missing))
    scratch, out = tmp_path / "scratch", tmp_path / "out"
    arguments = ["--size", "tiny", "--native-only", "--rounds", "2", "--json"]
    arguments += ["--scratch", str(scratch), "--out", str(out)]
    assert main([workflow.name, *arguments]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["identical"] is True
    assert found["results_compared"] > 40
    assert list(scratch.iterdir()) == []
    if workflow.name == "montage":
        assert Path(found["picture"]).read_bytes().startswith(b"\x89PNG")


def test_a_missing_program_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code = main(["montage", "--native-only", "--scratch", str(tmp_path / "scratch")])
    assert code == EXIT_UNABLE
    assert "mProjectPP (Debian package: montage)" in capsys.readouterr().err
