"""A finished study on disk: its results in three formats, and what its report needs beside them."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.parquet

from intarsia.simulate.binary import SimulationError
from intarsia.simulate.files import write_atomically
from intarsia.simulate.study.user import UserStudy

_FORMAT = 1


@dataclass(frozen=True)
class Outcome:
    """The results of a study."""

    name: str
    is_quick: bool
    binary: str
    frame: pd.DataFrame
    units: dict[str, str]
    user: UserStudy | None = None
    """How to show it, where it is no study that comes with the program."""

    def write(self, directory: Path) -> None:
        """Write `results.parquet`, `results.csv`, `results.json` and `study.json`."""
        # `attrs` would make pandas write its own metadata.
        frame = self.frame.copy()
        frame.attrs = {}
        packed = io.BytesIO()
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        pyarrow.parquet.write_table(table, packed)
        write_atomically(directory / "results.parquet", packed.getvalue())
        write_atomically(directory / "results.csv", frame.to_csv(index=False).encode())
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        content = {"units": self.units, "results": rows}
        write_atomically(directory / "results.json", _json(content))
        about = {
            "format": _FORMAT,
            "name": self.name,
            "is_quick": self.is_quick,
            "binary": self.binary,
            "units": self.units,
            "user": asdict(self.user) if self.user else None,
        }
        write_atomically(directory / "study.json", _json(about))

    @classmethod
    def read(cls, directory: Path) -> Outcome:
        """Read what `write` wrote."""
        try:
            about = json.loads((directory / "study.json").read_text(encoding="utf-8"))
            frame = pd.read_parquet(directory / "results.parquet")
            if about["format"] != _FORMAT:
                raise ValueError(f"format {about['format']} is not {_FORMAT}")
            user = about["user"]
            return cls(
                name=about["name"],
                is_quick=about["is_quick"],
                binary=about["binary"],
                frame=frame,
                units=about["units"],
                user=UserStudy(**_tuples(user)) if user else None,
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SimulationError(
                f"{directory} holds no finished study ({error}); "
                f"`intarsia simulate study … --out {directory}` makes one"
            ) from error


def _tuples(user: dict[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in user.items()
    }


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()
