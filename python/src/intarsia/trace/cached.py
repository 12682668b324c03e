"""Reads of a task that its memory answers vanish: what is left has to be moved between hosts.

How much a cache of so many bytes answers follows from the order of a task's own operations,
whatever store, hosts and links it runs on, so it is found once, before anything is predicted
(Costa, PhD thesis, 2014, section 3.2.5). What another task left in the memory of a host depends on
which host that is; the model decides that (`cache_bytes` of a profile).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from intarsia.trace.workload import Operation, Task, Workload

#: What goes and stays together in memory: as many bytes as the kernel reads ahead.
BLOCK_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class Hits:
    """What tasks read in all, and how much of it their memory had, in bytes."""

    read_bytes: int
    hit_bytes: int

    @property
    def ratio(self) -> float:
        """The part that memory had."""
        return self.hit_bytes / self.read_bytes if self.read_bytes else 0.0


def without_hits(workload: Workload, cache_bytes: int) -> Hits:
    """Leave out reads of bytes that the task has in a memory of `cache_bytes`.

    The memory is empty when a task begins, has whole blocks of `BLOCK_BYTES`, also of what the task
    wrote, and drops the one that was used longest ago. Reads that are left are joined where they
    go on.
    """
    read = hit = 0
    for task in workload.tasks:
        before = _read_bytes(task)
        task.operations = list(_joined(_missed(task.operations, _Memory(cache_bytes))))
        read += before
        hit += before - _read_bytes(task)
    return Hits(read, hit)


class _Memory:
    """Blocks of files, the one that was used longest ago first."""

    def __init__(self, size_bytes: int) -> None:
        self._most = size_bytes // BLOCK_BYTES
        self._blocks: OrderedDict[tuple[str, int], tuple[int, int]] = OrderedDict()

    def has(self, file: str, block: int, start: int, end: int) -> bool:
        """Whether it has these bytes of a block, and has them from now on."""
        known = self._blocks.pop((file, block), None)
        is_here = known is not None and known[0] <= start and end <= known[1]
        if known is not None and known[0] <= end and start <= known[1]:
            start, end = min(start, known[0]), max(end, known[1])
        self._blocks[file, block] = (start, end)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)
        return is_here


def _missed(operations: Iterable[Operation], memory: _Memory) -> Iterator[Operation]:
    for one in operations:
        if one.kind not in ("read", "write") or not one.size:
            yield one
            continue
        for block, start, end in _blocks(one):
            is_here = memory.has(one.file, block, start, end)
            if one.kind == "write" or not is_here:
                took_s = one.seconds * (end - start) / max(1, one.size)
                yield Operation(one.kind, one.file, start, end - start, took_s, one.at_s)


def _blocks(one: Operation) -> Iterator[tuple[int, int, int]]:
    """Numbers of the blocks that an operation touches, and its bytes there."""
    at = one.offset
    while at < one.end:
        end = min(one.end, (at // BLOCK_BYTES + 1) * BLOCK_BYTES)
        yield at // BLOCK_BYTES, at, end
        at = end


def _joined(operations: Iterable[Operation]) -> Iterator[Operation]:
    last: Operation | None = None
    for one in operations:
        if (
            last is not None
            and one.kind in ("read", "write")
            and (last.kind, last.file, last.end) == (one.kind, one.file, one.offset)
        ):
            last.size += one.size
            last.seconds += one.seconds
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _read_bytes(task: Task) -> int:
    return sum(one.size for one in task.operations if one.kind == "read")
