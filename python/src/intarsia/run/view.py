"""What a person sees of a run: a picture on a terminal, lines elsewhere, and a page."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from intarsia.run.drawing import Drawing
from intarsia.run.moment import Moment, picture_of
from intarsia.run.screen import Screen
from intarsia.run.streams import spoiled
from intarsia.tables import print_table

if TYPE_CHECKING:
    from intarsia.run.live import LivePage

# How often what is shown is made anew.
_EVERY_S = 0.5


class Terminal:
    """Standard error of a run, which goes on also when its terminal is gone."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._warns = Console(stderr=True, highlight=False) if quiet else self._console
        draws = sys.stderr.isatty() and self._console.is_interactive and not quiet
        self._drawing = Drawing(self._console) if draws else None
        self._page: LivePage | None = None
        self._shown_s = -_EVERY_S

    def say(self, text: str) -> None:
        """Print one line, unless all is to be quiet."""
        self._print(self._console, text)

    def warn(self, text: str) -> None:
        """Print one line of a failure."""
        self._print(self._warns, text)

    def update(self, moment: Moment) -> None:
        """Show how far the run is, if it was last shown some time ago."""
        now_s = time.monotonic()
        if (self._page is None and self._drawing is None) or now_s - self._shown_s < _EVERY_S:
            return
        self._shown_s = now_s
        picture = picture_of(moment)
        if self._page is not None:
            self._page.show(picture)
        if self._drawing is not None:
            with contextlib.suppress(OSError):
                self._drawing.draw(Screen(picture))

    def serve(self, address: str) -> None:
        """Show the run on a page too, until it ends; raises ClusterError."""
        from intarsia.run.live import LivePage  # jinja2 is of an extra

        self._page = LivePage(address)
        self.say(f"live page: {self._page.url}")

    def close(self) -> None:
        """Take the picture off the screen, and the page away."""
        if self._page is not None:
            self._page.close()
            self._page = None
        if self._drawing is not None:
            with contextlib.suppress(OSError):
                self._drawing.erase()

    def table(self, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table on standard output; raises OSError."""
        try:
            print_table(title, heads, rows)
        except OSError as error:
            raise spoiled(error) from None

    def _print(self, console: Console, text: str) -> None:
        with contextlib.suppress(OSError):
            if self._drawing is None:
                console.print(text, soft_wrap=True, markup=False)
            else:
                self._drawing.print(text)
