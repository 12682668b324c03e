"""A directory goes to another tier of its store and back; files are spread over the tiers."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SCRATCH, take_down
from intarsia.characterise.__main__ import main
from intarsia.store import Store, call, call_json, find_binary, one

LIMIT_S = 120


@pytest.fixture
def tiered() -> Iterator[Store]:
    """A store with two tiers, of which the second counts as a disk."""
    binary = find_binary()
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        place = Path(folder)
        mount = place / "mount"
        mount.mkdir()
        tiers = [
            word
            for name, kind in (("fast", "memory"), ("slow", "disk"))
            for word in ("--tier", f"{place / name},class={kind},capacity=400MiB")
        ]
        for name in ("fast", "slow"):
            (place / name).mkdir()
        call(binary, ["up", str(mount), "--dir", str(place / "store"), *tiers], LIMIT_S)
        status = one(call_json(binary, ["status", str(mount), "--json"], LIMIT_S))
        store = Store(binary, mount, place / "store", int(status["pid"]))
        try:
            yield store
        finally:
            assert not take_down(store)


def tiers_of(files: list[Path]) -> list[int]:
    layouts = [os.getxattr(path, "user.intarsia.layout").decode() for path in files]
    return [int(layout.split("tier=")[1].split()[0]) for layout in layouts]


def await_settled(store: Store) -> None:
    """Wait until the records of closed files say how long they are."""
    limit = time.monotonic() + LIMIT_S
    while store.status()["unsettled"]:
        assert time.monotonic() < limit, "files do not settle"
        time.sleep(0.05)


def balance(store: Store, *words: str) -> Any:
    command = [str(store.binary), "balance", str(store.mount), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return json.loads(done.stdout)


def test_a_directory_moves_to_the_tier_of_its_new_place_and_back(tiered: Store) -> None:
    data, archive = tiered.mount / "data", tiered.mount / "archive"
    data.mkdir()
    archive.mkdir()
    content = {f"f{n}": bytes([n]) * 300_000 for n in range(4)}
    for name, text in content.items():
        (data / name).write_bytes(text)
    call(tiered.binary, ["hint", "set", "tier=disk", str(archive)], LIMIT_S)
    assert tiers_of([data / name for name in content]) == [0] * 4
    assert main(["migrate", str(data), str(archive), "--link", "--yes", "--rate", "20MB"]) == 0
    moved = archive / "data"
    assert tiers_of([moved / name for name in content]) == [1] * 4
    assert {path.name: path.read_bytes() for path in data.iterdir()} == content, "by the link"
    assert main(["migrate", "--undo", str(archive / ".data.migration.json")]) == 0
    assert not data.is_symlink()
    assert {path.name: path.read_bytes() for path in data.iterdir()} == content
    assert tiers_of([data / name for name in content]) == [0] * 4


def test_files_are_spread_over_the_tiers_by_their_speeds_and_come_back(
    tiered: Store, tmp_path: Path
) -> None:
    files = [tiered.mount / f"f{n}" for n in range(8)]
    for number, path in enumerate(files):
        path.write_bytes(bytes([number]) * (12 << 20))
    await_settled(tiered)
    speeds, journal = tmp_path / "tiers.toml", tmp_path / "moved.json"
    fast, slow = (tiered.directory.parent / name for name in ("fast", "slow"))
    speeds.write_text(f'[tiers]\n"{fast}" = 100\n"{slow}" = 300\n')
    (planned,) = balance(tiered, "--speeds", str(speeds), "--dry-run")["transfers"]
    assert (planned["from"], planned["to"]) == (str(fast), str(slow))
    report = balance(tiered, "--speeds", str(speeds), "--journal", str(journal))
    # Three quarters of 96 MiB, in files of 12; what the tiers hold is counted in blocks.
    count = report["files"]
    assert count in (5, 6)
    assert report["stuck"] == 0
    assert sorted(tiers_of(files)) == [0] * (8 - count) + [1] * count
    assert [path.read_bytes()[:1] for path in files] == [bytes([n]) for n in range(8)]
    assert balance(tiered, "--undo", str(journal))["files"] == count
    assert tiers_of(files) == [0] * 8
