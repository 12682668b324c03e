"""Hints for many files at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping

from intarsia import batch

#: Before the names of hints, as attributes.
PREFIX = "user.intarsia."


def tag(paths: Iterable[str | os.PathLike[str]], hints: Mapping[str, str]) -> dict[str, OSError]:
    """Give all files or directories of `paths` the same hints, by one call for some hundreds.

    Returns what went wrong, by path; an empty mapping says that all have them. Raises ValueError
    where there are no hints.

    >>> tag(["/none"], {"tier": "disk"})["/none"].strerror
    'No such file or directory'
    """
    if not hints:
        raise ValueError("no hint is given; such as {'place': 'local'}")
    directories: dict[str, list[str]] = {}
    left: list[str] = []
    for path in (os.fspath(one) for one in paths):
        directory, name = os.path.split(path)
        if name in ("", ".", ".."):
            left.append(path)
        else:
            directories.setdefault(directory or ".", []).append(path)
    for directory, some in directories.items():
        names = [os.path.basename(path) for path in some]  # noqa: PTH119 - as fast as can be
        try:
            told = list(batch.tag(directory, names, hints))
        except (OSError, ValueError):
            # Each path by itself finds out what is wrong.
            left.extend(some)
        else:
            left.extend(path for path, errno in zip(some, told, strict=True) if errno)
    problems = {}
    for path in left:
        try:
            for name, value in hints.items():
                os.setxattr(path, PREFIX + name, value.encode())
        except OSError as error:
            problems[path] = error
    return problems


def hints_on(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the hints that a file or directory has; raises OSError.

    >>> hints_on("/proc")
    {}
    """
    try:
        names = os.listxattr(path)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENODATA):
            return {}
        raise
    hints = (name for name in names if name.startswith(PREFIX))
    return {name.removeprefix(PREFIX): os.getxattr(path, name).decode() for name in hints}
