"""Extended tracing of Darshan (DXT): each read and write of a rank, with its place and times.

Read are the binary log, by PyDarshan, or what `darshan-dxt-parser` prints, behind what
`darshan-parser` prints of the same log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from intarsia.trace.errors import TraceError
from intarsia.trace.extents import Extent, Extents
from intarsia.trace.workload import Operation, with_pauses

_FILE = re.compile(r"^# DXT, file_id: (\d+), file_name: ")
_ROW = re.compile(r"^\s*X_(?P<module>\w+)\s+(?P<cells>.*)$")
_KINDS = ("read", "write")
#: Rank, kind, segment, offset, length, start and end; object storage targets may follow.
_CELLS = 7
HELP = "make it anew with: (darshan-parser LOG; darshan-dxt-parser LOG) > LOG.txt"


@dataclass(frozen=True, slots=True)
class Segment:
    """One read or write of a file. Times are seconds since the job began."""

    kind: str
    offset: int
    size: int
    began_s: float
    ended_s: float


#: What each rank did to a file, by the number of the file.
Segments = dict[str, dict[int, list[Segment]]]


def of_text(source: str, lines: Iterable[tuple[int, str]]) -> Segments:
    """Read numbered lines; raises TraceError."""
    found: Segments = {}
    file = ""
    for number, line in lines:
        if head := _FILE.match(line):
            file = head[1]
        elif (row := _ROW.match(line)) and row["module"] == "POSIX":
            if not file:
                raise TraceError(source, f"line {number}", "of which file is not told", HELP)
            rank, segment = _segment(source, number, row["cells"].split())
            found.setdefault(file, {}).setdefault(rank, []).append(segment)
    return found


def is_row(line: str) -> bool:
    """Whether a line tells of a segment."""
    return _ROW.match(line) is not None


def _segment(source: str, number: int, cells: list[str]) -> tuple[int, Segment]:
    try:
        rank, kind, _, offset, size, began_s, ended_s = cells[:_CELLS]
        if kind not in _KINDS:
            raise ValueError(kind)
        made = Segment(kind, int(offset), int(size), float(began_s), float(ended_s))
        return int(rank), _checked(source, f"line {number}", made)
    except ValueError:
        what = f"no segment of extended tracing: {' '.join(cells)[:60]!r}"
        raise TraceError(source, f"line {number}", what, HELP) from None


def of_records(source: str, records: Iterable[Mapping[str, Any]]) -> Segments:
    """Take what PyDarshan read; raises TraceError."""
    found: Segments = {}
    for record in records:
        place = f"record {record['id']}"
        made = [_checked(source, place, Segment(*cells)) for cells in record["segments"]]
        found.setdefault(record["id"], {}).setdefault(record["rank"], []).extend(made)
    return found


def _checked(source: str, place: str, one: Segment) -> Segment:
    if min(one.offset, one.size) < 0 or not 0 <= one.began_s <= one.ended_s:
        what = f"a {one.kind} of {one.size} bytes at {one.offset}, {one.began_s} to {one.ended_s} s"
        raise TraceError(source, place, f"{what}, makes no sense", "the log is damaged")
    return one


def moved(ranks: Mapping[int, Iterable[Segment]], kind: str) -> int:
    """Bytes that all ranks together read or wrote.

    >>> moved({0: [Segment("read", 0, 4, 0, 1)], 1: [Segment("write", 0, 2, 0, 1)]}, "write")
    2
    """
    return sum(one.size for segments in ranks.values() for one in segments if one.kind == kind)


def reads_up_to(segments: Iterable[Segment]) -> int:
    """Return up to which byte a rank reads of a file what it has not written itself.

    >>> reads_up_to([Segment("write", 0, 4, 0, 1), Segment("read", 2, 4, 2, 3)])
    6
    >>> reads_up_to([Segment("write", 0, 8, 0, 1), Segment("read", 2, 4, 2, 3)])
    0
    """
    written, furthest = Extents(), 0
    for one in sorted(segments, key=lambda one: one.began_s):
        end = one.offset + one.size
        if one.kind == "write":
            written.fill(Extent(one.offset, end, "", one.offset))
        else:
            furthest = max([furthest, *(stop for _, stop in written.gaps(one.offset, end))])
    return furthest


class Rank:
    """What one rank does, as its segments tell it: in which order, and at which times."""

    def __init__(self, began_s: float, ended_s: float) -> None:
        self._began_s, self._ended_s = began_s, ended_s
        self._operations: list[Operation] = []
        self._took_s = 0.0
        #: Of each file, what this rank has written, which lies in a file of its own.
        self.written: dict[str, Extents] = defaultdict(Extents)
        self.sizes: dict[str, int] = defaultdict(int)

    def take(self, path: str, own: str, segments: Iterable[Segment], before: Extents) -> None:
        """Add what it did to the file `path`; `own` is what it writes, `before` what was there."""
        for one in sorted(segments, key=lambda one: one.began_s):
            if one.kind == "write":
                pieces: Iterable[Extent] = self._write(path, own, one)
            else:
                pieces = self._read(path, one, before)
            took_s = one.ended_s - one.began_s
            self._took_s += took_s
            for piece in pieces if one.size else ():
                share_s = took_s * piece.size / one.size
                at_s = self._began_s + one.began_s
                self._operations.append(
                    Operation(one.kind, piece.name, piece.offset, piece.size, share_s, at_s)
                )

    def operations(self, busy_s: float) -> list[Operation]:
        """Return all in the order of their times, with computations between them.

        `busy_s` is how long the rank was reading, writing and opening, by its counters. What of it
        no segment tells, of other files and of opening, is taken from the computations; but not
        where that is longer than the run: then calls overlapped, and nobody knows how.
        """
        ordered = sorted(self._operations, key=lambda one: one.at_s or 0.0)
        made = with_pauses(ordered, self._began_s, self._ended_s, {})
        computed_s = sum(one.seconds for one in made if one.kind == "compute")
        overlaps = busy_s > self._ended_s - self._began_s
        untold_s = 0.0 if overlaps else max(0.0, busy_s - self._took_s)
        for one in made:
            if one.kind == "compute":
                one.seconds *= max(0.0, 1 - untold_s / computed_s)
        return made

    def _write(self, path: str, own: str, one: Segment) -> Iterator[Extent]:
        written = self.written[path]
        for start, end in list(written.gaps(one.offset, one.offset + one.size)):
            written.fill(Extent(start, end, own, self.sizes[own]))
            self.sizes[own] += end - start
        return written.within(one.offset, one.offset + one.size)

    def _read(self, path: str, one: Segment, before: Extents) -> Iterator[Extent]:
        end = one.offset + one.size
        yield from self.written[path].within(one.offset, end)
        for start, stop in self.written[path].gaps(one.offset, end):
            yield from before.within(start, stop)
