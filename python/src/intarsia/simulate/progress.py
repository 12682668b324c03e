"""Progress on standard error: a bar on a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.progress import Task as BarTask
from rich.text import Text

_LINE_EVERY_S = 10.0


class Progress:
    """Counts finished points and tells the rate and the time left."""

    def __init__(self, title: str, total: int, quiet: bool = False) -> None:
        self._title = title
        self._total = total
        self._done = 0
        self._started = self._said = time.monotonic()
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._bar: Bar | None = None
        if not quiet and total > 0 and self._draws():
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                _Rate(),
                TimeRemainingColumn(),
                TextColumn("left"),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print one line."""
        self._console.print(text, soft_wrap=True, markup=False)

    def expect(self, total: int) -> None:
        """Correct the number of points and start the clock."""
        self._total = total
        self._started = self._said = time.monotonic()
        if self._bar is not None:
            self._bar.reset(self._task, total=total)

    def step(self) -> None:
        """Count one finished point."""
        self._done += 1
        if self._bar is not None:
            self._bar.advance(self._task)
            return
        now = time.monotonic()
        if now - self._said >= _LINE_EVERY_S:
            self._said = now
            self.say(self._line(now - self._started))

    def _line(self, elapsed_s: float) -> str:
        rate = self._done / elapsed_s
        left = (self._total - self._done) / rate
        done = f"{self._done}/{self._total} points"
        return f"{self._title}: {done}, {rate:.2g}/s, about {left:.0f} s left"

    def _draws(self) -> bool:
        if self._console.is_jupyter:
            # Without it rich shows a warning in place of the bar.
            return importlib.util.find_spec("ipywidgets") is not None
        return sys.stderr.isatty()


class _Rate(ProgressColumn):
    """Points a second."""

    def render(self, task: BarTask) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.2g}/s")
