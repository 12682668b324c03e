"""Chunkers, and backups as directories, tars and lists; what is wrong with them is said."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from intarsia.dedup.chunkers import Chunker
from intarsia.dedup.errors import DedupError
from intarsia.dedup.inputs import read_backup, sample_backup
from intarsia.dedup.lists import read_list, write_list
from intarsia.dedup.units import parse_bytes

KINDS = ["fastcdc", "fixed:8KiB", "file"]


def content(size: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def ids(data: bytes, kind: str) -> list[tuple[int, int]]:
    return list(Chunker.parse(kind).segments(io.BytesIO(data)))


@pytest.mark.parametrize("kind", KINDS)
def test_segments_cover_the_content(kind: str) -> None:
    data = content(300_000)
    assert sum(size for _, size in ids(data, kind)) == len(data)
    assert ids(b"", kind) == []
    assert ids(data, kind) == ids(data, kind)


def test_content_defined_segments_keep_to_their_bounds_and_survive_a_shift() -> None:
    data = content(4_000_000)
    found = ids(data, "fastcdc:4KiB,8KiB,16KiB")
    sizes = [size for _, size in found]
    assert max(sizes) <= 16384
    assert min(sizes[:-1]) >= 4096
    # Not the 8 KiB that were asked for: a segment never ends before the smallest size.
    assert np.mean(sizes) == pytest.approx(10_500, rel=0.03)
    shifted = {one for one, _ in ids(b"abc" + data, "fastcdc")}
    assert np.mean([one in shifted for one, _ in found]) > 0.97
    fixed = {one for one, _ in ids(b"abc" + data, "fixed:8KiB")}
    assert not any(one in fixed for one, _ in ids(data, "fixed:8KiB"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rabin", "write fastcdc:SMALLEST"),
        ("fixed:8kb", "there is no unit kb; use B, kB"),
        ("fixed:8 parsecs", "no unit parsecs"),
        ("fixed:-1", "is no size"),
        ("fixed:100", "at least 512"),
        ("fastcdc:8KiB", "SMALLEST,AVERAGE,LARGEST"),
        ("fastcdc:8KiB,4KiB,16KiB", "smallest < average < largest"),
        ("fastcdc:1KiB,8MiB,16MiB", "up to 16 MiB"),
        ("file:1", "or file"),
    ],
)
def test_a_wrong_chunker_is_refused(text: str, says: str) -> None:
    with pytest.raises(DedupError, match=says):
        Chunker.parse(text)


def test_sizes_have_units() -> None:
    assert [parse_bytes(t) for t in ("1.5KiB", "2kB", "0")] == [1536, 2000, 0]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "b").mkdir(parents=True)
    (root / "b" / "one").write_bytes(content(50_000))
    (root / "a").write_bytes(content(20_000, 2))
    (root / "empty").touch()
    (root / "link").symlink_to("a")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packing", ["", "gz", "xz"])
def test_a_tar_gives_what_its_directory_gives(
    tree: Path, tmp_path: Path, kind: str, packing: str
) -> None:
    packed = tmp_path / f"backup.tar.{packing}".removesuffix(".")
    with tarfile.open(packed, f"w:{packing}") as archive:  # type: ignore[call-overload]
        for name in ("a", "b/one", "empty", "link"):
            archive.add(tree / name, name)
    from_tar, from_tree = (read_backup(path, Chunker.parse(kind)) for path in (packed, tree))
    assert np.array_equal(np.sort(from_tar.ids), np.sort(from_tree.ids))
    assert from_tree.bytes == from_tar.bytes == 70_000
    assert {"a", "b/one"} <= set(from_tree.paths)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_list_stands_for_its_backup(tree: Path, tmp_path: Path, suffix: str) -> None:
    (tree / "näme with\nline end").write_bytes(b"x")
    trace = read_backup(tree, Chunker())
    path = tmp_path / f"list.fp{suffix}"
    write_list(trace, "fastcdc", path)
    again = read_list(path)
    assert np.array_equal(again.ids, trace.ids)
    assert np.array_equal(again.sizes, trace.sizes)
    assert "näme with\nline end" in again.paths


def test_a_list_of_another_program_is_read(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_text("# any comment\nDEADBEEF00, 4096\nabcdef0123456789abcdef\t100\thome/me\n")
    trace = read_list(path)
    assert trace.sizes.tolist() == [4096, 100]
    assert trace.ids.tolist() == [0xDEADBEEF00, 0xABCDEF0123456789]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no segments"),
        ("# comment\n", "has no segments"),
        ("hello world\n", ":1: `hello world` is no line"),
        ("deadbeef00 8KiB\n", ":1: size `8KiB`: write bytes, without a unit"),
        ("deadbeef00 8.5\n", "without a unit or a point"),
        ("deadbeef00 0\n", "a segment of 0 bytes cannot be"),
        ("deadbeef00 10\ndeadbeef01\n", ":2: `deadbeef01` is no line"),
        ("# intarsia-fingerprints 2\n", "newer than this program"),
        ("# intarsia-fingerprints 1\ndeadbeef00 10\n", "cut off after 1 segments"),
        ("# intarsia-fingerprints 1\ndeadbeef00 10\n# end 2 20\n", "its end says 2 segments"),
        ("deadbeef00 10\n# end 1 10\ndeadbeef00 10\n", "more after the end"),
    ],
)
def test_a_damaged_list_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "list"
    path.write_text(text)
    with pytest.raises(DedupError, match=says):
        read_list(path)


def test_what_is_cut_off_is_refused(tree: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as archive:
        archive.add(tree / "b" / "one", "one")
    whole = (tmp_path / "b.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DedupError, match="damaged or was cut off"):
        read_backup(tmp_path / "cut.tar.gz", Chunker())
    with tarfile.open(tmp_path / "plain.tar", "w") as archive:
        archive.add(tree / "b" / "one", "one")
    (tmp_path / "cut.tar").write_bytes((tmp_path / "plain.tar").read_bytes()[:30_000])
    with pytest.raises(DedupError, match="damaged or was cut off"):
        read_backup(tmp_path / "cut.tar", Chunker())
    (tmp_path / "cut.fp.gz").write_bytes(gzip.compress(b"deadbeef00 10\n" * 1000)[:-9])
    with pytest.raises(DedupError, match="cut off"):
        read_backup(tmp_path / "cut.fp.gz", Chunker())


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DedupError, match="holds no file with content"):
        read_backup(tmp_path / "empty", Chunker())
    with pytest.raises(DedupError, match="does not exist"):
        read_backup(tmp_path / "nowhere", Chunker())
    (tmp_path / "binary").write_bytes(b"\xff\x00" * 100)
    with pytest.raises(DedupError, match="is no text"):
        read_backup(tmp_path / "binary", Chunker())


def test_a_file_with_two_names_counts_once(tree: Path) -> None:
    before = read_backup(tree, Chunker()).bytes
    (tree / "b" / "second-name").hardlink_to(tree / "a")
    assert read_backup(tree, Chunker()).bytes == before


def test_a_sample_reads_its_share(tree: Path) -> None:
    chunker = Chunker.parse("fixed:512")
    whole = read_backup(tree, chunker)
    trace, segments, total = sample_backup(tree, 512, 0.3, 1)
    assert (segments, total) == (len(whole), 70_000)
    assert len(trace) == pytest.approx(0.3 * segments, rel=0.4)
    assert set(trace.ids.tolist()) <= set(whole.ids.tolist())
    again, _, _ = sample_backup(tree, 512, 1.0, 1)
    assert np.array_equal(again.ids, whole.ids)
