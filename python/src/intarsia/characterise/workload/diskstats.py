"""What `/proc/diskstats` tells between two looks at it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.workload.windows import Window

_SECTOR = 512
PROC = Path("/proc/diskstats")


@dataclass(frozen=True)
class Counters:
    """Counters of one device since the system started; see the kernel's iostats.rst."""

    reads: int
    sectors_read: int
    read_ms: int
    writes: int
    sectors_written: int
    write_ms: int
    weighted_ms: int
    """Time of all requests, those that wait included."""


def parse(text: str, device: str) -> Counters:
    """Read the line of one device.

    Raises `CharacteriseError` when there is none, with the devices that there are.
    """
    names = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 14:
            continue
        names.append(words[2])
        if words[2] == device:
            fields = [int(word) for word in words[3:14]]
            return Counters(
                fields[0], fields[2], fields[3], fields[4], fields[6], fields[7], fields[10]
            )
    raise CharacteriseError(f"no device {device} in diskstats; there are {', '.join(names)}")


def between(before: Counters, after: Counters, start_s: float, seconds: float) -> Window | None:
    """Return the load between two looks; None when nothing was done. It does not tell of seeks."""
    reads, writes = after.reads - before.reads, after.writes - before.writes
    if reads < 0 or writes < 0:
        raise CharacteriseError("counters went backwards: the device was removed and came back")
    if reads + writes == 0:
        return None
    sectors = (
        after.sectors_read - before.sectors_read + after.sectors_written - before.sectors_written
    )
    waited = after.read_ms - before.read_ms + after.write_ms - before.write_ms
    return Window(
        start_s,
        reads + writes,
        float("nan"),
        100 * reads / (reads + writes),
        sectors * _SECTOR / (reads + writes),
        (after.weighted_ms - before.weighted_ms) / 1e3 / seconds,
        waited / (reads + writes),
        (reads + writes) / seconds,
        0.0,
        float("nan"),
    )


def watch(device: str, length_s: float, count: int, path: Path = PROC) -> Iterator[Window]:
    """Look `count` windows long at a device; windows in which nothing was done are left out."""
    started = before_s = time.monotonic()
    before = parse(path.read_text(), device)
    for _ in range(count):
        time.sleep(length_s)
        now_s, now = time.monotonic(), parse(path.read_text(), device)
        window = between(before, now, before_s - started, now_s - before_s)
        if window is not None:
            yield window
        before, before_s = now, now_s
