"""Progress on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar


class Progress:
    """Tells a person how far the runs are."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[stage]}"),
        )
        self._bar = Bar(*columns, console=self._console, transient=True)
        self._draws = sys.stderr.isatty() and not quiet
        self._title = ""
        self._task: TaskID | None = None

    def say(self, text: str) -> None:
        """Print one line."""
        self._console.print(text, soft_wrap=True, markup=False)

    def begin(self, title: str, tasks: int) -> None:
        """Start a run of `tasks` tasks."""
        self._title = title
        if self._draws:
            self._bar.start()
            self._task = self._bar.add_task(title, total=tasks, stage="")

    def step(self, stage: str) -> None:
        """Count one finished task of `stage`."""
        if self._task is not None:
            self._bar.update(self._task, advance=1, stage=stage)

    def end(self, seconds: float) -> None:
        """Finish the run."""
        self.stop()
        self.say(f"{self._title}: {seconds:.2f} s")

    def stop(self) -> None:
        """Take the bar off the screen, also after a failure."""
        if self._task is not None:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = None
