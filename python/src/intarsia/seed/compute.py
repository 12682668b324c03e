"""What a host takes to compute, beside another one: by the same piece of work."""

import os
import zlib

from intarsia.seed.probe import BODY, KIB
from intarsia.seed.watch import Times, Watch

_PIECE, _FEW = 128 * KIB, 4


def compute(name: str) -> Times:
    """Time the compression of bytes of chance, which is the same work on each host."""
    watch = Watch()
    for _ in range(_FEW):
        watch.start()
        zlib.compress(BODY[:_PIECE])
        watch.stop(name)
    return watch.times()


def facts(_directory: str, _number: int) -> Times:
    """Return what the kernel says of the host: processors, memory that can keep files, its boot."""
    return {"processors": [processors()], "memory_bytes": [memory_bytes()], "boot": [boot()]}


def boot() -> int:
    """A number for this boot of the kernel; 0 where it does not say. One kernel is one machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as lines:
            # As many digits as a float holds exactly, since times are floats.
            return int(lines.read().replace("-", "")[:12], 16)
    except (OSError, ValueError):
        return 0


def processors() -> int:
    """Processors that programs may use here."""
    return len(os.sched_getaffinity(0))


def memory_bytes() -> int:
    """Memory that can keep files, in bytes, as the kernel says; 0 where it does not."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as lines:
            found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        return 0
    return int(found[0]) * 1024 if found else 0
