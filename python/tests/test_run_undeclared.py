from __future__ import annotations

import os
from pathlib import Path

import pytest
from intarsia.run import undeclared
from intarsia.run.graph import Task, graph_of
from intarsia.run.undeclared import Undeclared


def begun(directory: Path, command: str = "true") -> Undeclared:
    """Begin a run of one task, which makes `out/a`, in a directory with something in it."""
    (directory / "old").mkdir(parents=True)
    (directory / "old" / "before").write_text("")
    (directory / "in").write_text("")
    task = Task("a", command, ("in",), ("out/a",))
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
    assert run.found({"a"}) == []


def test_files_beside_declared_ones_and_in_new_directories_are_named(tmp_path: Path) -> None:
    run = begun(tmp_path)
    for name in ("out/a", "out/b", "beside", "new/deep/er/c", "new/d", "out/sub/e"):
        make(tmp_path / name)
    (named,) = run.found({"a"})
    assert named.endswith(": beside, new/d, new/deep/er/c, out/b, out/sub/e")


def test_few_of_many_are_named_and_not_all_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undeclared, "_LOOKED_AT", 8)
    run = begun(tmp_path)
    for number in range(20):
        make(tmp_path / "new" / f"{number:02}")
    (named,) = run.found({"a"})
    assert named.endswith(" and 3 more")


def test_what_a_command_names_is_found_wherever_it_is(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    other.mkdir()
    command = f"cd ../other && echo > one; tool --out={other}/two 'a b' > '{other}/c d'"
    run = begun(work, f"{command}; mkdir ../new; sh -c 'cp in ../new/x'; cat old/before > old/e")
    for path in ("one", "two", "c d", "by others"):
        make(other / path)
    for place in (tmp_path / "new/x", tmp_path / "new/y", work / "old/e", work / "out/a"):
        make(place)
    (named,) = run.found({"a"})
    found = ["new/x", "new/y", "other/c d", "other/one", "other/two"]
    assert named.endswith(f": {', '.join(f'{tmp_path}/{name}' for name in found)} and 1 more")
    assert run.found({"b"}) == []


def test_what_was_there_or_is_declared_by_another_path_is_not_named(tmp_path: Path) -> None:
    make(tmp_path / "other/log")
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work")
    run = begun(tmp_path / "link", f"echo >> ../other/log; echo > {tmp_path}/work/out/a; ls \\0")
    make(tmp_path / "other/log")
    make(tmp_path / "work/out/a")
    assert run.found({"a"}) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: a file is given to another user by root")
def test_files_of_other_users_and_beside_inputs_elsewhere_are_not_named(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    make(tmp_path / "data/in")
    task = Task("a", "cat ../data/new > a", ("../data/in",), ("a",))
    graph = graph_of("test", "test", [task])
    run = Undeclared(graph, tmp_path / "work", tmp_path / "work/.run-test")
    for path in ("data/new", "work/b"):
        make(tmp_path / path)
        os.chown(tmp_path / path, 12345, 12345)
    make(tmp_path / "data/beside")
    assert run.found({"a"}) == []


def test_no_more_names_of_commands_are_looked_at_than_there_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undeclared, "_LOOKED_AT", 3)
    run = begun(tmp_path, "touch old/1 old/2 old/3 old/4")
    for number in range(1, 5):
        make(tmp_path / f"old/{number}")
    (named,) = run.found({"a"})
    assert named.endswith(": old/1, old/2, old/3")
