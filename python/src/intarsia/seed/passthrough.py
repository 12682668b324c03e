"""Small calls on an open file whose bytes are in memory, beside those of a plain directory.

Where the kernel serves such calls by itself they take about as long; where each of them asks a
program, or another host, they take many times as long.
"""

import os
import random
import tempfile
from pathlib import Path

from intarsia.seed.mounts import file_system
from intarsia.seed.probe import BODY, FEW, INTO, KIB, write_all
from intarsia.seed.watch import Times, Watch

_CALL, _LENGTH = 4 * KIB, 256 * KIB
#: File systems that the kernel serves without any program.
_PLAIN = frozenset(("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs"))


def plain_directory() -> Path | None:
    """Return a directory that no program serves, for files that have no name; None without."""
    for path in (Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm")):
        if path.is_dir() and file_system(path) in _PLAIN and os.access(path, os.W_OK):
            return path
    return None


def small_calls(directory: str, plain: Path) -> Times:
    """Read and write 4 KiB at places of chance of a file here and of one in a plain directory."""
    watch = Watch()
    path = os.path.join(directory, "small")
    with open(path, "xb", buffering=0) as made:
        write_all(made.fileno(), BODY[:_LENGTH])
    with open(path, "r+b", buffering=0) as here, tempfile.TemporaryFile(dir=plain) as there:
        write_all(there.fileno(), BODY[:_LENGTH])
        files = {"small": here.fileno(), "plain": there.fileno()}
        for file in files.values():
            os.preadv(file, [memoryview(INTO)[:_LENGTH]], 0)
        places = random.Random(_LENGTH).choices(range(0, _LENGTH, _CALL), k=FEW[_CALL])
        for number, place in enumerate(places):
            for kind in sorted(files, reverse=number % 2 == 1):
                _both(watch, kind, files[kind], place)
    os.unlink(path)
    return watch.times()


def _both(watch: Watch, kind: str, file: int, place: int) -> None:
    into = [memoryview(INTO)[:_CALL]]
    watch.start()
    os.preadv(file, into, place)
    watch.stop(f"{kind}_read")
    watch.start()
    os.pwrite(file, BODY[:_CALL], place)
    watch.stop(f"{kind}_write")
