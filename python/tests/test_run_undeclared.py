from __future__ import annotations

from pathlib import Path

import pytest
from intarsia.run import undeclared
from intarsia.run.graph import Task, graph_of
from intarsia.run.undeclared import Undeclared


def begun(directory: Path) -> Undeclared:
    """Begin a run of one task, which makes `out/a`, in a directory with something in it."""
    (directory / "old").mkdir(parents=True)
    (directory / "old" / "before").write_text("")
    (directory / "in").write_text("")
    task = Task("a", "true", ("in",), ("out/a",))
    return Undeclared(graph_of("test", "test", [task]), directory, directory / ".run-test")


def make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")


def test_what_was_declared_or_there_before_and_what_the_run_keeps_is_not_named(
    tmp_path: Path,
) -> None:
    run = begun(tmp_path)
    make(tmp_path / "out" / "a")
    make(tmp_path / ".run-test" / "logs" / "a.1.log")
    assert run.found() == []


def test_files_beside_declared_ones_and_in_new_directories_are_named(tmp_path: Path) -> None:
    run = begun(tmp_path)
    for name in ("out/a", "out/b", "beside", "new/deep/er/c", "new/d", "out/sub/e"):
        make(tmp_path / name)
    (named,) = run.found()
    assert named.endswith(": beside, new/d, new/deep/er/c, out/b, out/sub/e")


def test_few_of_many_are_named_and_not_all_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undeclared, "_LOOKED_AT", 8)
    run = begun(tmp_path)
    for number in range(20):
        make(tmp_path / "new" / f"{number:02}")
    (named,) = run.found()
    assert named.endswith(" and 3 more")
