"""Lists of fingerprints as text: ours, which know where they end, and those of other programs.

    # intarsia-fingerprints 1
    # chunker fastcdc:4096,8192,16384
    # hash blake2b-128
    9f86d081884c7d65 9127 home/me/notes.txt
    # end 1 9127

A line is a fingerprint (at least 8 hexadecimal digits), the size in bytes and, if known, the path.
The last line counts segments and bytes, so that a list that was cut off is seen.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO, cast

import numpy as np

from intarsia.dedup.chunkers import HASH
from intarsia.dedup.errors import DedupError
from intarsia.dedup.trace import Trace
from intarsia.simulate.files import write_atomically

HEADER = "# intarsia-fingerprints 1"
_LINE = re.compile(r"(?P<id>[0-9a-fA-F]{8,128})[ \t,]+(?P<size>[^ \t,]+)(?:[ \t,]+(?P<path>.*))?")
_CUT = re.compile(r"# chunker (\S+)")
_END = re.compile(r"# end (\d+) (\d+)")


def write_list(trace: Trace, chunker: str, path: Path) -> None:
    """Write a list, compressed if the name ends in .gz or .xz."""
    text = io.StringIO()
    text.write(f"{HEADER}\n# chunker {chunker}\n# hash {HASH}\n")
    for number, size, owner in zip(
        trace.ids.tolist(), trace.sizes.tolist(), trace.owners.tolist(), strict=True
    ):
        text.write(f"{number:016x} {size} {_escaped(trace.paths[owner])}\n")
    text.write(f"# end {len(trace)} {trace.bytes}\n")
    content = text.getvalue().encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    elif path.suffix == ".xz":
        content = lzma.compress(content)
    write_atomically(path, content)


def read_list(path: Path) -> Trace:
    """Read a list; raise `DedupError` with the line that is wrong."""
    try:
        with _open(path) as lines:
            return _parse(str(path), lines)
    except UnicodeDecodeError as error:
        raise DedupError(f"{path} is no text: give a directory, a tar or a list") from error
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DedupError(f"{path} is damaged or was cut off: {error}") from error


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8"))
    if path.suffix == ".xz":
        return cast(TextIO, lzma.open(path, "rt", encoding="utf-8"))
    return open(path, encoding="utf-8")


class _Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.sizes: list[int] = []
        self.owners: list[int] = []
        self.paths: dict[str, int] = {}
        self.end: tuple[int, int] | None = None
        self.is_ours = False
        self.cut = ""


def _parse(name: str, lines: Iterable[str]) -> Trace:
    read = _Reading()
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r\n")
        if number == 1 and line.startswith("# intarsia-fingerprints"):
            if line != HEADER:
                raise DedupError(f"{name}:1: {line} is newer than this program reads")
            read.is_ours = True
        elif read.end is not None and line:
            raise DedupError(f"{name}:{number}: there is more after the end; one list a backup")
        elif line.startswith("#"):
            if end := _END.fullmatch(line):
                read.end = (int(end[1]), int(end[2]))
            elif cut := _CUT.fullmatch(line):
                read.cut = cut[1]
        elif line:
            _segment(f"{name}:{number}", line, read)
    return _finished(name, read)


def _segment(place: str, line: str, read: _Reading) -> None:
    match = _LINE.fullmatch(line)
    if match is None:
        raise DedupError(f"{place}: `{line[:60]}` is no line `FINGERPRINT BYTES [PATH]`")
    if not match["size"].isdigit():
        raise DedupError(f"{place}: size `{match['size']}`: write bytes, without a unit or a point")
    size = int(match["size"])
    if not 0 < size < 2**40:
        raise DedupError(f"{place}: a segment of {size} bytes cannot be: sizes are bytes")
    read.ids.append(int(match["id"][:16], 16))
    read.sizes.append(size)
    path = match["path"] or ""
    read.owners.append(read.paths.setdefault(path, len(read.paths)))


def _finished(name: str, read: _Reading) -> Trace:
    have = (len(read.ids), sum(read.sizes))
    if read.is_ours and read.end is None:
        raise DedupError(f"{name} was cut off after {have[0]} segments: scan the backup again")
    if read.end is not None and read.end != have:
        raise DedupError(
            f"{name}: its end says {read.end[0]} segments and {read.end[1]} bytes, but there are "
            f"{have[0]} and {have[1]}: scan the backup again"
        )
    if not read.ids:
        raise DedupError(f"{name} has no segments: give one list a backup, or a directory or tar")
    return Trace(
        name,
        np.array(read.ids, np.uint64),
        np.array(read.sizes, np.int64),
        np.array(read.owners, np.int32),
        tuple(_unescaped(path) for path in read.paths),
        read.cut,
    )


def _escaped(path: str) -> str:
    """Keep any file name on one line and in UTF-8."""
    return path.encode("unicode_escape").decode("ascii")


def _unescaped(path: str) -> str:
    try:
        return path.encode("ascii").decode("unicode_escape")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return path
