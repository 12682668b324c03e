"""Histories of Debian packages: each one named is a full backup.

Debian keeps a few versions of a package, but some packages have a version in their names and stand
beside each other, as `linux-headers-6.1.0-47-common` does: those are a history. They come through
`apt-get download`, from where apt is set up to ask.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from intarsia.dedup.corpora.tools import run
from intarsia.dedup.errors import DedupError

_WANTED = re.compile(r"[a-z0-9][a-z0-9.+-]+(=[A-Za-z0-9.+:~-]+)?")


def fetch_packages(root: Path, packages: Sequence[str]) -> list[Path]:
    """Unpack packages such as `tzdata=2024a-0` below `root`, in this order; return their paths.

    What is there already is not fetched again.
    """
    for package in packages:
        if not _WANTED.fullmatch(package):
            raise DedupError(f"`{package}`: write a package of Debian as NAME or NAME=VERSION")
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise DedupError(f"{program} is not in the PATH: packages of Debian need a Debian")
    return [_fetch(root, package) for package in packages]


def _fetch(root: Path, package: str) -> Path:
    place = root / package
    if place.is_dir():
        return place
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetched-", dir=root) as folder:
        # apt fetches as a user of its own, who must be let in.
        Path(folder).chmod(0o755)
        why = f"{package} cannot be fetched"
        run(["apt-get", "--quiet", "--quiet", "download", package], why, Path(folder))
        (archive,) = Path(folder).glob("*.deb")
        unpacked = Path(folder) / "content"
        run(["dpkg-deb", "--extract", str(archive), str(unpacked)], why)
        unpacked.rename(place)
    return place
