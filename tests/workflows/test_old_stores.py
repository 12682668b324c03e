"""Stores that earlier versions made are opened, read, written and found whole."""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

import pytest
from conftest import SCRATCH, require, take_down
from intarsia.store import Store, call, find_binary, fuse_problem
from seen import seen

EXAMPLES = Path(__file__).resolve().parents[1] / "format/stores"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.json")))
def test_a_store_of_an_earlier_version_is_as_it_was(name: str) -> None:
    problem = fuse_problem()
    require(problem is None, str(problem))
    was = json.loads((EXAMPLES / f"{name}.json").read_text())
    with tempfile.TemporaryDirectory(dir=SCRATCH) as place:
        with tarfile.open(EXAMPLES / f"{name}.tar.xz") as packed:
            packed.extractall(place)
        directory, mount = Path(place) / "store", Path(place) / "mount"
        store = Store.up(mount, directory)
        try:
            assert seen(mount) == was
            call(find_binary(), ["check", "--content", str(mount)], 60)
            (mount / "strict/long").write_bytes(b"written by the present version")
            (mount / "a/b/new").write_bytes(b"x" * 100_000)
            (mount / "large").unlink()
        finally:
            assert take_down(store) == []
        store = Store.up(mount, directory)
        try:
            assert (mount / "strict/long").read_bytes() == b"written by the present version"
            assert (mount / "a/b/new").read_bytes() == b"x" * 100_000
            assert len((mount / "second name").read_bytes()) == was["large"]["bytes"]
            call(find_binary(), ["check", "--content", str(mount)], 60)
        finally:
            assert take_down(store) == []
