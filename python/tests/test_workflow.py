import threading
from pathlib import Path

import pytest
from intarsia.demo.workflow import (
    Command,
    Stage,
    WorkflowError,
    copy_in,
    missing_programs,
    run_stages,
)


def test_stages_run_in_order_and_every_task_is_told(tmp_path: Path) -> None:
    seen: list[str] = []

    def write(text: str) -> Stage:
        def task(directory: Path) -> None:
            (directory / "last").write_text(text)

        return Stage(text, [task] * 3)

    times = run_stages([write("one"), write("two")], [tmp_path], 2, seen.append)
    assert (tmp_path / "last").read_text() == "two"
    assert seen == ["one"] * 3 + ["two"] * 3
    assert [(time.name, time.tasks) for time in times] == [("one", 3), ("two", 3)]


def test_tasks_of_one_stage_run_at_the_same_time(tmp_path: Path) -> None:
    meeting = threading.Barrier(2, timeout=30)

    def meet(_: Path) -> None:
        meeting.wait()

    run_stages([Stage("meet", [meet, meet])], [tmp_path], 2, lambda _: None)


def test_a_failing_program_is_named_with_what_it_said(tmp_path: Path) -> None:
    command = Command(("sh", "-c", "echo no such star; exit 3"))
    with pytest.raises(WorkflowError, match=r"failed \(3\).*\n.*no such star"):
        run_stages([Stage("one", [command])], [tmp_path], 1, lambda _: None)


def test_a_program_that_reports_failure_but_exits_with_zero_is_refused(tmp_path: Path) -> None:
    said = '[struct stat="OK", module="mDiffExec", count=42, failed=1]'
    with pytest.raises(WorkflowError, match="failed=1"):
        Command(("echo", said), refused=r"\bfailed=[1-9]")(tmp_path)
    Command(("echo", said.replace("failed=1", "failed=0")), refused=r"\bfailed=[1-9]")(tmp_path)


def test_missing_programs_name_their_package() -> None:
    programs = {"sh": "dash", "no-such-program": "some-package"}
    assert missing_programs(programs) == ["no-such-program (Debian package: some-package)"]


def test_copy_in_makes_the_folder(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"bytes")
    copy_in(tmp_path / "source", "raw/target")(tmp_path)
    assert (tmp_path / "raw" / "target").read_bytes() == b"bytes"
