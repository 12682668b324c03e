"""Where the tasks of a run are to run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where tasks run: `scheduler` is the address of one that runs already, with its workers.

    Else `hosts` get a worker each by `shell`, and connect to `address` of this host; without a
    shell it is this host alone.
    """

    hosts: tuple[str, ...]
    shell: str | None = None
    address: str | None = None
    slots: int | None = None
    scheduler: str | None = None
