"""A picture below the lines that a program prints on a terminal, until it is taken off."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from rich.console import Console, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import Segment, SegmentLines

# So many of the last lines are printed again on a screen that had to be cleared.
_KEPT = 10


class Drawing:
    """Draws on a console that is a terminal; of the main thread alone.

    Ctrl-Z takes the picture off before the program stops. The cursor stays visible, so that
    nothing has to be put right after `kill -9`.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._wide = self._high = 0
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._stops = False
        self._stop_before: Callable[[int, FrameType | None], Any] | int | None = None

    def draw(self, picture: RenderableType) -> None:
        """Draw a picture in place of the last one."""
        if self._stops:
            self._stop()
        self._clear_if_wrapped()
        lines = self._console.render_lines(picture, pad=False)
        self._wide, self._high = Segment.get_shape(lines)
        shown = SegmentLines(lines, new_lines=True)
        if self._live is None:
            self._begin(shown)
        else:
            self._live.update(shown, refresh=True)

    def print(self, text: str) -> None:
        """Print a line above the picture."""
        self._clear_if_wrapped()
        self._lines.append(text)
        self._console.print(text, soft_wrap=True, markup=False)

    def erase(self) -> None:
        """Take the picture off."""
        self._clear_if_wrapped()
        self._end()

    def _begin(self, shown: RenderableType) -> None:
        # What goes to standard output may go into a file.
        self._live = Live(
            shown,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            vertical_overflow="crop",
        )
        self._live.start(refresh=True)
        self._console.show_cursor(True)
        self._stop_before = signal.signal(signal.SIGTSTP, self._stop_soon)

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            signal.signal(signal.SIGTSTP, self._stop_before)

    def _clear_if_wrapped(self) -> None:
        """Begin on a clear screen where the terminal has become too small for what is drawn.

        Some terminals wrap such lines then and others cut them, so that nobody knows where the
        picture begins.
        """
        size = self._console.size
        if self._live is None or (size.width >= self._wide and size.height > self._high):
            return
        self._end()
        self._console.control(Control.clear(), Control.home())
        for text in self._lines:
            self._console.print(text, soft_wrap=True, markup=False)

    def _stop_soon(self, _number: int, _frame: FrameType | None) -> None:
        # Not here, where something may just be printed.
        self._stops = True

    def _stop(self) -> None:
        # As the terminal meant it: where no shell could have this go on again, nothing happens.
        self._stops = False
        self._end()
        os.kill(os.getpid(), signal.SIGTSTP)
