"""Files in which a run is told, where the user asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from intarsia.run.attempts import History
from intarsia.run.chrome import write_trace
from intarsia.run.graph import GraphError
from intarsia.run.journal import Past
from intarsia.run.record import write_record


@dataclass(frozen=True)
class Told:
    """A record as WfFormat, a Chrome trace, and the directory of a page."""

    record: Path | None
    trace: Path | None
    report: Path | None

    def require_places(self) -> None:
        """Raise GraphError for what cannot be written; better now than when hours are over."""
        for option, path in (("--record", self.record), ("--trace", self.trace)):
            if path is not None and path.is_dir():
                raise GraphError(f"{option} {path}", ["is a directory; name a file"])
            if path is not None and not path.exists():
                _require_place(option, path, path.absolute().parent)
        if self.report is not None:
            there = (self.report.absolute(), *self.report.absolute().parents)
            _require_place("--report", self.report, next(one for one in there if one.exists()))

    def write(
        self, history: History, past: Mapping[str, Past], say: Callable[[str], None]
    ) -> Iterator[str]:
        """Write them; says for each that cannot be written why."""
        if self.record:
            yield from _problem(
                "--record", self.record, lambda path: write_record(path, history, past)
            )
        if self.trace:
            yield from _problem("--trace", self.trace, lambda path: write_trace(path, history))
        if self.report:
            from intarsia.run.page import write_page  # pandas and matplotlib take a second

            yield from _problem(
                "--report", self.report, lambda path: say(f"report: {write_page(path, history)}")
            )


def _require_place(option: str, path: Path, place: Path) -> None:
    """Raise GraphError if nothing can be made in a directory."""
    if not place.exists():
        problem = "is not there"
    elif not place.is_dir():
        problem = "is no directory"
    elif not os.access(place, os.W_OK):
        problem = "cannot be written to"
    else:
        return
    raise GraphError(f"{option} {path}", [f"{place} {problem}"])


def _problem(option: str, path: Path, write: Callable[[Path], None]) -> Iterator[str]:
    try:
        write(path)
    except OSError as error:
        yield f"{option} {path}: {error.strerror or error}"
    except UnicodeError as error:  # names of files may be of any bytes
        yield f"{option} {path}: {error}"
