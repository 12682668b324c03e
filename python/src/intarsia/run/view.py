"""What a person sees of a run: a bar with counts on a terminal, lines elsewhere, and a page."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from intarsia.run.moment import Moment
from intarsia.run.progression import State
from intarsia.tables import print_table

if TYPE_CHECKING:
    from intarsia.run.live import LivePage


class Terminal:
    """Standard error of a run."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._warns = Console(stderr=True, highlight=False) if quiet else self._console
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"),
        )
        self._bar = Bar(*columns, console=self._console, transient=True)
        self._page: LivePage | None = None
        self._draws = sys.stderr.isatty() and not quiet
        self._task = self._bar.add_task("", total=None, counts="")

    def expect(self, title: str, tasks: int) -> None:
        """Say what is run, before the first update."""
        self._bar.update(self._task, description=title, total=tasks)

    def say(self, text: str) -> None:
        """Print one line, unless all is to be quiet."""
        self._console.print(text, soft_wrap=True, markup=False)

    def warn(self, text: str) -> None:
        """Print one line of a failure."""
        self._warns.print(text, soft_wrap=True, markup=False)

    def update(self, moment: Moment) -> None:
        """Show how far the run is."""
        if self._page is not None:
            self._page.update(moment)
        if not self._draws:
            return
        if not self._bar.live.is_started:
            self._bar.start()
        progression, history = moment.progression, moment.history
        counts = [f"{len(moment.sent)} running", f"{progression.count(State.READY)} ready"]
        counts += [f"{len(history.failed)} failed"] if history.failed else []
        if history.input_bytes:
            counts.append(f"{100 * history.local_bytes / history.input_bytes:.0f} % local")
        self._bar.update(
            self._task, completed=progression.count(State.DONE), counts=", ".join(counts)
        )

    def serve(self, address: str) -> None:
        """Show the run on a page too, until it ends; raises ClusterError."""
        from intarsia.run.live import LivePage  # jinja2 is of an extra

        self._page = LivePage(address)
        self.say(f"live page: {self._page.url}")

    def close(self) -> None:
        """Take the bar off the screen, and the page away."""
        if self._page is not None:
            self._page.close()
            self._page = None
        if self._bar.live.is_started:
            self._bar.stop()

    def table(self, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table on standard output."""
        print_table(title, heads, rows)
