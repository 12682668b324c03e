"""Snakemake's storage in a store: its own tests of a storage, and a workflow without copies."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest
from conftest import SCRATCH, Bench
from runs import ENVIRONMENT
from snakemake_interface_storage_plugins.tests import TestStorageBase as StorageTests
from snakemake_storage_plugin_intarsia import StorageProvider

LIMIT_S = 150

SNAKEFILE = """
PARTS = glob_wildcards(storage.intarsia("intarsia://parts/{part}.txt")).part

rule all:
    input: "packed/all.gz"

rule clean:
    input: "parts/{part}.txt"
    output: "clean/{part}.txt"
    shell: "grep -v '^#' {input} > {output}"

rule pack:
    input: expand("clean/{part}.txt", part=PARTS)
    output: "packed/all.gz"
    shell: "cat {input} | gzip -1 > {output}"
"""


@pytest.fixture
def job(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new directory of a store, which stands for its mount."""
    directory = Path(tempfile.mkdtemp(dir=bench.store("passthrough").mount))
    monkeypatch.setenv("INTARSIA_MOUNT", str(directory))
    yield directory
    rmtree(directory)


class TestStorage(StorageTests):
    """What Snakemake asks of every storage; its `tmp_path` may be in another file system."""

    __test__ = True
    touch = True

    @pytest.fixture(autouse=True)
    def _job(self, job: Path) -> None:
        self.job = job

    def get_storage_provider_cls(self) -> type[StorageProvider]:
        return StorageProvider

    def get_query(self, tmp_path: Path) -> str:
        return f"intarsia://{self.job}/test/a.txt"

    def get_query_not_existing(self, tmp_path: Path) -> str:
        return "intarsia://none"


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_workflow_over_urls_leaves_its_files_in_the_store(job: Path, is_inside: bool) -> None:
    """With the local copies of Snakemake in the store, and elsewhere."""
    (job / "parts").mkdir()
    for name in "ab":
        (job / f"parts/{name}.txt").write_text(f"# a part\n{name}\n")
    with tempfile.TemporaryDirectory(dir=job if is_inside else SCRATCH) as place:
        (Path(place) / "Snakefile").write_text(SNAKEFILE)
        words = [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet"]
        words += ["--default-storage-provider", "intarsia"]
        words += ["--default-storage-prefix", f"intarsia://{job}"]
        run(words, Path(place), job)
        packed = subprocess.run(
            ["gzip", "-dc", job / "packed/all.gz"], capture_output=True, check=True, timeout=60
        )
        assert packed.stdout == b"a\nb\n"
        assert (job / "clean/a.txt").read_text() == "a\n"
        assert not (job / "clean/a.txt").is_symlink()
        # Nothing is left to do, and what was changed is made again.
        made = (job / "packed/all.gz").stat().st_mtime_ns
        run(words, Path(place), job)
        assert (job / "packed/all.gz").stat().st_mtime_ns == made
        (job / "parts/b.txt").write_text("c\n")
        run(words, Path(place), job)
        assert (job / "clean/b.txt").read_text() == "c\n"


def test_a_query_that_is_none_of_ours_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INTARSIA_MOUNT", raising=False)
    assert "does not begin" in str(StorageProvider.is_valid_query("s3://a"))
    assert "set INTARSIA_MOUNT" in str(StorageProvider.is_valid_query("intarsia://a"))
    assert StorageProvider.is_valid_query("intarsia:///mnt/{a}.txt")


def run(words: list[str], directory: Path, mount: Path) -> None:
    done = subprocess.run(
        words,
        cwd=directory,
        env=ENVIRONMENT | {"INTARSIA_MOUNT": str(mount), "HOME": os.environ.get("HOME", "/")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
