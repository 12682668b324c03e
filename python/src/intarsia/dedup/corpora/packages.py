"""Histories of published packages: each release is a full backup.

Wheels come through `pip download`, from the index that pip is set up with. Give few packages and
few releases.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from intarsia.dedup.corpora.tools import run
from intarsia.dedup.errors import DedupError

_WANTED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.+!_-]*")


def fetch_releases(root: Path, releases: Sequence[str]) -> list[Path]:
    """Unpack releases such as `django==4.2.1` below `root`, in this order; return their paths.

    What is there already is not fetched again.
    """
    for release in releases:
        if not _WANTED.fullmatch(release):
            raise DedupError(f"`{release}`: write a release as NAME==VERSION")
    return [_fetch(root, release) for release in releases]


def _fetch(root: Path, release: str) -> Path:
    place = root / release
    if place.is_dir():
        return place
    wheels = root / f".{release}.wheel"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(wheels), release]
    run(command, f"{release} cannot be fetched")
    (wheel,) = wheels.glob("*.whl")
    unfinished = root / f".{release}.part"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unfinished)
    unfinished.rename(place)
    wheel.unlink()
    wheels.rmdir()
    return place
