"""`intarsia://` by the mount and over the wire: the tests of fsspec itself, and our own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import fsspec
import pytest
from conftest import Bench
from fsspec.tests import abstract
from intarsia.engines.filesystem import IntarsiaFileSystem
from intarsia.engines.wire import WireFileSystem


@pytest.fixture
def job(bench: Bench) -> Iterator[Path]:
    """A new directory of a store."""
    directory = Path(tempfile.mkdtemp(dir=bench.store("write-back").mount))
    yield directory
    rmtree(directory)


class InStore(abstract.AbstractFixtures):
    """What the tests of fsspec itself need to know of `intarsia://`: where they may work."""

    @pytest.fixture
    def fs_path(self, job: Path) -> str:
        return str(job)


class FileSystem(InStore):
    """By the mount."""

    @pytest.fixture
    def fs(self) -> IntarsiaFileSystem:
        return IntarsiaFileSystem(auto_mkdir=True)


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


@pytest.fixture(scope="module")
def server(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and token of a server for a store."""
    tokens = tmp_path_factory.mktemp("server") / "token"
    root = str(bench.store("write-back").mount)
    words = [sys.executable, "-m", "intarsia.engines.serve", root, "--token-file", str(tokens)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            yield said.split(" at ")[1].split(";")[0], tokens.read_text().strip()
        finally:
            process.terminate()


class OverTheWire(InStore):
    """The same from a server, as on a host without a mount."""

    @pytest.fixture
    def fs(self, server: tuple[str, str]) -> WireFileSystem:
        return WireFileSystem(server[0], server[1], auto_mkdir=True)


class TestWireCopy(OverTheWire, abstract.AbstractCopyTests):
    pass


class TestWireGet(OverTheWire, abstract.AbstractGetTests):
    pass


class TestWirePut(OverTheWire, abstract.AbstractPutTests):
    pass


class TestWireOpen(OverTheWire, abstract.AbstractOpenTests):
    pass


class TestWirePipe(OverTheWire, abstract.AbstractPipeTests):
    pass


def test_files_are_read_and_written_over_the_wire(job: Path, server: tuple[str, str]) -> None:
    address, token = server
    content = bytes(range(256)) * 40_000
    url = f"intarsia://{address}{job}/a b#c?d"
    with fsspec.open(url, "wb", token=token) as file:
        file.write(content)
    assert (job / "a b#c?d").read_bytes() == content
    with fsspec.open(url, "ab", token=token) as file:
        file.write(b"more")
    with fsspec.open(url, "rb", token=token, block_size=100_000) as file:
        assert file.read(10) == content[:10]
        file.seek(5_000_000)
        assert file.read(1_000_000) == content[5_000_000:6_000_000]
        file.seek(-4, 2)
        assert file.read() == b"more"
    files = fsspec.filesystem("intarsia", server=address, token=token)
    assert isinstance(files, WireFileSystem)
    found = files.locate([f"{job}/a b#c?d", f"{job}/none"])
    assert found.files[0].size_bytes == len(content) + 4
    assert found.files[1].problem == "No such file or directory"
    files.mkdir(f"{job}/inner/deep")
    files.mv(f"{job}/a b#c?d", f"{job}/inner/b")
    assert files.find(str(job)) == [f"{job}/inner/b"]
    files.rm(f"{job}/inner", recursive=True)
    assert not (job / "inner").exists()


def test_a_server_gives_nothing_to_strangers_and_nothing_else(
    job: Path, server: tuple[str, str], tmp_path: Path
) -> None:
    address, token = server
    (job / "file").write_text("mine")
    (tmp_path / "secret").write_text("x")
    (job / "link").symlink_to(tmp_path / "secret")
    stranger = WireFileSystem(address, "guess", skip_instance_cache=True)
    for ask in (stranger.info, stranger.cat_file, stranger.rm_file):
        with pytest.raises(PermissionError, match="not that of this server"):
            ask(f"{job}/file")
    files = WireFileSystem(address, token)
    for path in ("/etc/passwd", f"{job}/../../../../etc/passwd", f"{job}/link", f"{job}/link/x"):
        with pytest.raises(PermissionError, match="not below"):
            files.read_at(path, 0, 10)
        with pytest.raises(PermissionError, match="not below"):
            files.write_at(path, 0, b"x" * 3_000_000)
    assert (tmp_path / "secret").read_text() == "x"
    assert (job / "file").read_text() == "mine"
    with pytest.raises(FileNotFoundError):
        files.cat_file(f"{job}/none")
    with pytest.raises(ValueError, match="HOST:PORT"):
        WireFileSystem("node01", token)


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
