"""Parsl's interchange, which ends with the process that began it, also when that is killed.

By itself it goes on for ever then, with the workers of its host.
"""

from __future__ import annotations

import os
import runpy
import select
import threading


def _end_with(handle: int) -> None:
    """Wait until the process of a handle ends, then end this one."""
    select.select([handle], [], [])
    os._exit(1)


def main() -> None:
    """Run the interchange."""
    parent = os.getppid()
    # Whoever was not our parent any more has ended, or its number is another's by now.
    handle = os.pidfd_open(parent)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_end_with, args=(handle,), daemon=True).start()
    runpy.run_module("parsl.executors.high_throughput.interchange", run_name="__main__")


if __name__ == "__main__":
    main()
