"""What programs see of a tree."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any


def seen(root: Path) -> dict[str, dict[str, Any]]:
    """Return what is told of each name below `root`, and of `root`, which has the name ``."""
    found = {"": _told(root)}
    for path in root.rglob("*"):
        found[str(path.relative_to(root))] = _told(path)
    return found


def _told(path: Path) -> dict[str, Any]:
    status = path.lstat()
    told: dict[str, Any] = {
        "mode": oct(status.st_mode),
        "owner": [status.st_uid, status.st_gid],
        "links": status.st_nlink,
        "mtime_ns": status.st_mtime_ns,
    }
    if stat.S_ISLNK(status.st_mode):
        told["target"] = str(path.readlink())
        return told
    names = sorted(os.listxattr(path))
    if names:
        told["attributes"] = {name: os.getxattr(path, name).hex() for name in names}
    if stat.S_ISREG(status.st_mode):
        told["bytes"] = status.st_size
        with path.open("rb") as file:
            told["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return told
