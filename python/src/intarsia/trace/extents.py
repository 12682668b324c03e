"""Which bytes of a file lie where in the files of those that wrote them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes from `start` up to `end` of a file are those from `offset` on of the file `name`."""

    start: int
    end: int
    name: str
    offset: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


class Extents:
    """Extents that do not overlap, in the order of the file. The first that is added counts."""

    def __init__(self, extents: tuple[Extent, ...] = ()) -> None:
        self._all: list[Extent] = []
        for one in extents:
            self.fill(one)

    def __iter__(self) -> Iterator[Extent]:
        return iter(self._all)

    def fill(self, new: Extent) -> None:
        """Add the parts of an extent that lie where there is none yet.

        >>> told = Extents((Extent(0, 4, "a", 0), Extent(2, 6, "b", 10)))
        >>> [(one.start, one.end, one.name, one.offset) for one in told]
        [(0, 4, 'a', 0), (4, 6, 'b', 12)]
        """
        for start, end in list(self.gaps(new.start, new.end)):
            self._insert(replace(new, start=start, end=end, offset=new.offset + start - new.start))

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between two places that no extent has."""
        at = start
        for one in self.within(start, end):
            if at < one.start:
                yield at, one.start
            at = one.end
        if at < end:
            yield at, end

    def within(self, start: int, end: int) -> Iterator[Extent]:
        """Yield what the extents have between two places, cut to these."""
        for one in self._all[bisect_right(self._all, start, key=lambda one: one.end) :]:
            if one.start >= end:
                return
            first, last = max(start, one.start), min(end, one.end)
            yield Extent(first, last, one.name, one.offset + first - one.start)

    def _insert(self, new: Extent) -> None:
        at = bisect_left(self._all, new.start, key=lambda one: one.start)
        before = self._all[at - 1] if at else None
        if before is not None and _goes_on(before, new):
            self._all[at - 1] = replace(before, end=new.end)
        else:
            self._all.insert(at, new)


def _goes_on(before: Extent, new: Extent) -> bool:
    return (before.end, before.name, before.offset + before.size) == (
        new.start,
        new.name,
        new.offset,
    )
