"""What the kernel says of the file system of a directory."""

from __future__ import annotations

import os
from pathlib import Path


def device_number(directory: Path) -> str:
    """Return the number of the device below a directory, as `/sys/dev/block` names it."""
    device = directory.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def file_system(directory: Path) -> str:
    """Return the kind of file system that a directory is of, as `ext4`; empty if nothing says it.

    >>> file_system(Path("/proc"))
    'proc'
    """
    number = device_number(directory)
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for mount in mounts:
            fields, _, rest = mount.partition(" - ")
            if fields.split()[2] == number:
                return rest.split()[0]
    return ""
