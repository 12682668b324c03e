"""What a migration has done so far, on disk before it is done."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Self

from intarsia.characterise.errors import CharacteriseError
from intarsia.simulate.files import write_atomically


class State(StrEnum):
    """How far a migration has come."""

    COPYING = "copying"
    """The source is complete; the target is not, and may be deleted."""
    COPIED = "copied"
    """Source and target are complete and the same."""
    DONE = "done"
    """The source is gone, or a link to the target."""
    UNDONE = "undone"
    """All is as before."""


@dataclass(frozen=True)
class Journal:
    """One migration; `path` is where it is written down."""

    path: Path
    source: Path
    target: Path
    state: State
    is_linked: bool
    sums: dict[str, str]
    """BLAKE2 sums of the files that were copied, by path below the source."""

    def to(self, state: State, sums: dict[str, str] | None = None) -> Journal:
        """Write down the next state and return it."""
        following = replace(self, state=state, sums=self.sums if sums is None else sums)
        following.write()
        return following

    def write(self) -> None:
        """Write the journal, complete or not at all."""
        data = {name: value for name, value in asdict(self).items() if name != "path"}
        data |= {"source": str(self.source), "target": str(self.target)}
        write_atomically(self.path, json.dumps(data, indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a journal; raises `CharacteriseError` when it is none."""
        try:
            data = json.loads(path.read_text())
            return cls(
                path,
                Path(data["source"]),
                Path(data["target"]),
                State(data["state"]),
                bool(data["is_linked"]),
                dict(data["sums"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CharacteriseError(
                f"{path}: this is no journal of a migration ({error!r})"
            ) from None
