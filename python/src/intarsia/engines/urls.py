"""`intarsia://`: which path of a mounted store a URL names."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from intarsia.locate import host_of

PREFIX = "intarsia://"
_SERVER = re.compile(r"intarsia://([^/]+:[0-9]+)(?:/|$)")
_FILE_SYSTEM = "fuse.intarsia"


def path_of(url: str) -> str:
    """Return the path that a URL names; what is no URL of ours stays as it is.

    Raises ValueError for a URL below the mount where INTARSIA_MOUNT does not name that.

    >>> path_of("intarsia:///mnt/work/a"), path_of("/mnt/work/a")
    ('/mnt/work/a', '/mnt/work/a')
    """
    if not url.startswith(PREFIX):
        return url
    path = url.removeprefix(PREFIX)
    if server_of(url):
        return "/" + path.partition("/")[2]
    return path if path.startswith("/") else f"{_mount()}/{path}"


def server_of(url: str) -> str | None:
    """Return the server that a URL names, as HOST:PORT.

    >>> server_of("intarsia://node01:7700/mnt/work/a"), server_of("intarsia://a/b:7")
    ('node01:7700', None)
    """
    found = _SERVER.match(url)
    return found[1] if found else None


def token_file() -> Path:
    """Return where a server's token is kept, at the server and at those who ask it."""
    return Path.home() / ".intarsia-token"


def is_mounted() -> bool:
    """Whether any store is mounted on this host."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as table:
            return any(f" - {_FILE_SYSTEM} " in line for line in table)
    except OSError:
        return False


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
