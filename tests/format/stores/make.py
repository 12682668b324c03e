"""Make a store of one host with files of all kinds, and put it down here as an example.

    .venv/bin/python tests/format/stores/make.py store-2

An example stands for the version that made it: it is made once, and never again.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / "python/src"), str(HERE.parents[1] / "workflows")]

from intarsia.store import Store  # noqa: E402
from seen import seen  # noqa: E402

#: A time that a program has set, in nanoseconds.
_SET_NS = 1_600_000_000_123_456_789


def _bytes(count: int) -> bytes:
    """Bytes that differ from block to block, and can be packed."""
    return b"".join(b"%07d\n" % number for number in range(count // 8 + 1))[:count]


def fill(root: Path) -> None:
    """Make files, directories and links of all kinds."""
    for name, size in (("empty", 0), ("beside", 900), ("block", 4096), ("large", 300_000)):
        (root / name).write_bytes(_bytes(size))
    (root / "sparse").touch()
    os.truncate(root / "sparse", 10 << 20)
    with (root / "sparse").open("r+b") as file:
        file.seek(5 << 20)
        file.write(b"in the middle")
    (root / "cut").write_bytes(_bytes(200_000))
    os.truncate(root / "cut", 70_001)
    (root / "grown").write_bytes(_bytes(100))
    with (root / "grown").open("ab") as file:
        file.write(_bytes(150_000))
    _name(root)
    _describe(root)
    deep = root / "a/b/c"
    deep.mkdir(parents=True)
    for number in range(50):
        (deep / f"file-{number:02}").write_bytes(_bytes(number * 97))
    for number in range(0, 50, 3):
        (deep / f"file-{number:02}").unlink()


def _name(root: Path) -> None:
    """Make links, and names that are unlike others."""
    (root / "second name").hardlink_to(root / "large")
    (root / "link").symlink_to("a/b/c")
    (root / "dangling").symlink_to("nowhere/at/all")
    (root / ("n" * 255)).write_bytes(b"a long name")
    (root / "Füße").write_bytes(b"not ASCII")
    os.close(os.open(os.fsencode(root) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY, 0o644))
    os.mkfifo(root / "pipe")
    (root / "before").write_bytes(_bytes(5_000))
    (root / "before").rename(root / "renamed")


def _describe(root: Path) -> None:
    """Set modes, owners, times, attributes and hints."""
    (root / "beside").chmod(0o4711)
    os.chown(root / "block", 1234, 5678)
    os.utime(root / "cut", ns=(_SET_NS, _SET_NS))
    os.setxattr(root / "beside", "user.note", b"\0any\xffbytes")
    os.setxattr(root, "user.of-the-root", b"1")
    (root / "strict").mkdir()
    for name, value in (("integrity", b"strict"), ("place", b"local"), ("lifetime", b"keep")):
        os.setxattr(root / "strict", f"user.intarsia.{name}", value)
    for name, size in (("small", 500), ("long", 2_000_000)):
        (root / "strict" / name).write_bytes(_bytes(size))


def main() -> None:
    """Make the store that the command line names."""
    (name,) = sys.argv[1:]
    for path in (HERE / f"{name}.tar.xz", HERE / f"{name}.json"):
        if path.exists():
            sys.exit(f"{path} is there already; take another name")
    with tempfile.TemporaryDirectory() as place:
        directory, mount = Path(place) / "store", Path(place) / "mount"
        store = Store.up(mount, directory)
        try:
            fill(mount)
            found = seen(mount)
        finally:
            store.down()
        (HERE / f"{name}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as packed:
            packed.add(directory, arcname="store")


if __name__ == "__main__":
    main()
