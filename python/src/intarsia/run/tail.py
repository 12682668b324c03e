"""The end of a log, for a person who wants to know at once why something failed."""

from __future__ import annotations

from pathlib import Path

_LINES = 5
_BYTES = 4096


def tail_of(log: Path) -> list[str]:
    """Return the last lines of a log, to be shown below what is said of it; none if it is gone."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [f"  | {line}" for line in text.splitlines()[-_LINES:]]
