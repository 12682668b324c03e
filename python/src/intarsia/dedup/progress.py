"""How far reading is: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress import TransferSpeedColumn as Speed

from intarsia.dedup.units import show_bytes

_LINE_EVERY_S = 10.0


@contextmanager
def reading(total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Yield what is told of each number of bytes that was read."""
    if quiet or not total:
        yield lambda _: None
    elif sys.stderr.isatty():
        columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), Speed())
        with Progress(
            *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
        ) as bar:
            task = bar.add_task("reading", total=total)
            yield lambda count: bar.advance(task, count)
    else:
        yield _Lines(total).tell


class _Lines:
    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._started = self._said = time.monotonic()

    def tell(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._said < _LINE_EVERY_S:
            return
        self._said = now
        rate = self._done / (now - self._started)
        left = max(self._total - self._done, 0) / rate
        print(
            f"{100 * self._done / self._total:.1f} %, {show_bytes(rate)}/s, {left:.0f} s left",
            file=sys.stderr,
        )
