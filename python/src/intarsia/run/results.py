"""Files that went with a host: results after their task was done, and inputs before it was."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence

from intarsia.locate import Located, locate
from intarsia.run.attempt import is_lost, read_first, read_whole


def lost_among(paths: Sequence[str], gone_hosts: Collection[str]) -> list[str]:
    """Return the files that are gone, or that lay on a host that is and cannot be read."""
    if not gone_hosts:
        return []
    return [one.path for one in locate(paths).files if _is_lost(one, gone_hosts)]


def unreadable_among(paths: Sequence[str], gone_hosts: Collection[str]) -> list[str]:
    """Return the inputs of a task that ended well which it may not have read.

    They lay on a host that is gone, and cannot be read. A program may pass over such files.
    """
    if not gone_hosts:
        return []
    found = locate(paths).files
    return [one.path for one in found if one.problem is None and _is_lost(one, gone_hosts)]


def _is_lost(file: Located, gone_hosts: Collection[str]) -> bool:
    if file.problem is not None:
        return file.problem == os.strerror(errno.ENOENT)
    if set(file.hosts).isdisjoint(gone_hosts):
        return False
    # Any part of a striped file may be the one that is gone.
    return is_lost(file.path, gone_hosts, read_first if file.copies else read_whole)
