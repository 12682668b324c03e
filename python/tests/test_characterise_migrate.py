"""Moving trees between directories: nothing is lost, whatever comes in between."""

import errno
import json
import os
import time
from pathlib import Path

import pytest
from intarsia.characterise.__main__ import main
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.migrate import Journal, State, executor, migrate, plan_of, undo


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "slow" / "shop"
    (tree / "deep" / "empty").mkdir(parents=True)
    (tree / "a.bin").write_bytes(os.urandom(3_000_000))
    (tree / "deep" / "b.txt").write_text("b")
    (tree / "deep" / "link").symlink_to("../a.bin")
    os.utime(tree / "deep" / "b.txt", ns=(1_000_000_001, 2_000_000_002))
    (tmp_path / "fast").mkdir()
    return tree


def content(tree: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(tree)): str(path.readlink())
        if path.is_symlink()
        else (path.read_bytes() if path.is_file() else "directory")
        for path in sorted(tree.rglob("*"))
    }


def test_a_tree_moves_with_its_times_and_links_and_comes_back(tree: Path, tmp_path: Path) -> None:
    before, fast = content(tree), tmp_path / "fast"
    report = migrate(tree, fast, link=True)
    assert (report.files, report.bytes) == (2, 3_000_001)
    assert tree.is_symlink()
    assert content(fast / "shop") == before
    assert (fast / "shop/deep/b.txt").stat().st_mtime_ns == 2_000_000_002
    assert Journal.read(report.journal).state is State.DONE
    undo(report.journal)
    assert not tree.is_symlink()
    assert content(tree) == before
    assert not (fast / "shop").exists()
    with pytest.raises(CharacteriseError, match="undone before"):
        undo(report.journal)


def test_a_single_file_moves(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "to").mkdir()
    migrate(tmp_path / "one", tmp_path / "to")
    assert (tmp_path / "to/one").read_text() == "1"
    assert not (tmp_path / "one").exists()


def test_a_file_system_that_keeps_no_attributes_gives_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keeps_none(path: Path) -> list[str]:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(path))

    monkeypatch.setattr(os, "listxattr", keeps_none)
    (tmp_path / "one").write_text("content")
    (tmp_path / "one").chmod(0o640)
    (tmp_path / "to").mkdir()
    migrate(tmp_path / "one", tmp_path / "to")
    moved = tmp_path / "to/one"
    assert (moved.read_text(), moved.stat().st_mode & 0o777) == ("content", 0o640)


def test_planning_changes_nothing_and_nothing_is_overwritten(tree: Path, tmp_path: Path) -> None:
    before = content(tmp_path)
    plan_of(tree, tmp_path / "fast")
    assert content(tmp_path) == before
    (tmp_path / "fast" / "shop").write_text("mine")
    with pytest.raises(CharacteriseError, match="nothing is overwritten"):
        migrate(tree, tmp_path / "fast")
    for directory, message in (("none", "no directory"), ("slow", "already"), ("slow/shop", "alr")):
        with pytest.raises(CharacteriseError, match=message):
            migrate(tree, tmp_path / directory)
    os.mkfifo(tree / "pipe")
    (tmp_path / "fast" / "shop").unlink()
    with pytest.raises(CharacteriseError, match="only files, directories and links"):
        migrate(tree, tmp_path / "fast")


def test_what_was_interrupted_goes_on(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(tree)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(tree, tmp_path / "fast", say=interrupt)
    assert content(tree) == before
    migrate(tree, tmp_path / "fast")
    assert content(tmp_path / "fast" / "shop") == before
    assert not tree.exists()


def test_a_store_that_returns_other_bytes_loses_nothing(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(tree)
    monkeypatch.setattr(executor, "_sum", lambda _: "rotten")
    with pytest.raises(CharacteriseError, match="is the store sound"):
        migrate(tree, tmp_path / "fast")
    assert content(tree) == before


def test_a_file_that_changes_meanwhile_stays(tree: Path, tmp_path: Path) -> None:
    def write(_: int) -> None:
        (tree / "a.bin").write_text("newer")

    with pytest.raises(CharacteriseError, match="changed while it was copied"):
        migrate(tree, tmp_path / "fast", say=write)
    assert (tree / "a.bin").read_text() == "newer"
    migrate(tree, tmp_path / "fast")
    assert (tmp_path / "fast/shop/a.bin").read_text() == "newer"


def test_undoing_does_not_lose_what_was_written_since(tree: Path, tmp_path: Path) -> None:
    report = migrate(tree, tmp_path / "fast")
    (tmp_path / "fast/shop/deep/b.txt").write_text("newer")
    with pytest.raises(CharacteriseError, match=r"changed since the migration: deep/b\.txt"):
        undo(report.journal)
    assert (tmp_path / "fast/shop/deep/b.txt").read_text() == "newer"


def test_a_second_tree_of_the_same_name_does_not_replace_the_first(
    tree: Path, tmp_path: Path
) -> None:
    before = content(tree)
    migrate(tree, tmp_path / "fast")
    tree.mkdir()
    (tree / "a.bin").write_text("another")
    with pytest.raises(CharacteriseError, match="nothing is overwritten"):
        migrate(tree, tmp_path / "fast")
    assert content(tmp_path / "fast" / "shop") == before


def test_the_rate_is_kept(tree: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    migrate(tree, tmp_path / "fast", bytes_per_second=6e6)
    assert time.monotonic() - started >= 0.45


def test_the_command_is_a_dry_run_unless_told(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["migrate", str(tree), str(tmp_path / "fast")]
    assert main(words) == 0
    assert "would move 2 files" in capsys.readouterr().out
    assert tree.exists()
    assert main([*words, "--yes", "--json"]) == 0
    journal = json.loads(capsys.readouterr().out)["journal"]
    assert not tree.exists()
    assert main(["migrate", "--undo", journal]) == 0
    assert tree.exists()
    assert main(["migrate"]) == 1
    assert "give what to move" in capsys.readouterr().err
