"""`intarsia://` on a store's mount: the tests of fsspec itself, and what a path may be."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import fsspec
import pytest
from conftest import Bench
from fsspec.tests import abstract
from intarsia.engines.filesystem import IntarsiaFileSystem


@pytest.fixture
def job(bench: Bench) -> Iterator[Path]:
    """A new directory of a store."""
    directory = Path(tempfile.mkdtemp(dir=bench.store("write-back").mount))
    yield directory
    rmtree(directory)


class FileSystem(abstract.AbstractFixtures):
    """What the tests of fsspec itself need to know of `intarsia://`."""

    @pytest.fixture
    def fs(self) -> IntarsiaFileSystem:
        return IntarsiaFileSystem(auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, job: Path) -> str:
        return str(job)


class TestCopy(FileSystem, abstract.AbstractCopyTests):
    pass


class TestGet(FileSystem, abstract.AbstractGetTests):
    pass


class TestPut(FileSystem, abstract.AbstractPutTests):
    pass


class TestOpen(FileSystem, abstract.AbstractOpenTests):
    pass


class TestPipe(FileSystem, abstract.AbstractPipeTests):
    pass


def test_a_url_names_a_path_or_one_below_the_mount(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTARSIA_MOUNT", str(job))
    with fsspec.open(f"intarsia://{job}/absolute", "w") as file:
        file.write("one")
    with fsspec.open("intarsia://relative", "w") as file:
        file.write("two")
    assert (job / "absolute").read_text() == "one"
    assert (job / "relative").read_text() == "two"
    found = fsspec.filesystem("intarsia").locate(["intarsia://relative", str(job / "none")])
    assert [file.problem for file in found.files] == [None, "No such file or directory"]


def test_a_url_outside_a_store_and_one_without_a_mount_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "local").write_text("one")
    files = fsspec.filesystem("intarsia")
    new = f"intarsia://{tmp_path}/new"
    makers = {"open": [new, "w"], "touch": [new], "put_file": [str(tmp_path / "local"), new]}
    for name, arguments in makers.items():
        with pytest.raises(FileNotFoundError, match="lies in no store"):
            getattr(files, name)(*arguments)
    assert not (tmp_path / "new").exists()
    monkeypatch.delenv("INTARSIA_MOUNT", raising=False)
    with pytest.raises(ValueError, match="set INTARSIA_MOUNT"):
        fsspec.open("intarsia://new", "w").open()
