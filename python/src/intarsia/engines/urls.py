"""`intarsia://`: which path of a mounted store a URL names."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

from intarsia.locate import host_of

PREFIX = "intarsia://"


def path_of(url: str) -> str:
    """Return the path that a URL names; what is no URL of ours stays as it is.

    Raises ValueError for a URL below the mount where INTARSIA_MOUNT does not name that.

    >>> path_of("intarsia:///mnt/work/a"), path_of("/mnt/work/a")
    ('/mnt/work/a', '/mnt/work/a')
    """
    if not url.startswith(PREFIX):
        return url
    path = url.removeprefix(PREFIX)
    return path if path.startswith("/") else f"{_mount()}/{path}"


def require_store(path: str) -> None:
    """Raise FileNotFoundError if `path`, or what is there of it, lies in no store."""
    there = PurePosixPath(path)
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if host_of(there) is None:
        raise FileNotFoundError(
            f"{path} lies in no store; `intarsia status` lists the mounts of those that are up"
        )


def _mount() -> str:
    mount = os.environ.get("INTARSIA_MOUNT")
    if not mount:
        raise ValueError(
            "intarsia:// without a leading / is a path below the store's mount: set INTARSIA_MOUNT"
            " to it, or write intarsia:///mnt/work/..."
        )
    return mount
