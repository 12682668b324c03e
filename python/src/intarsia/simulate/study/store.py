"""Finished points on disk, one file each, so that an interrupted study goes on where it was.

A file holds the envelopes and a checksum of them, and appears under its name only when it is
complete. A file that fails its checksum is not used: its point is computed again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from intarsia.simulate.files import write_atomically

Envelopes = list[dict[str, Any]]


class PointStore:
    """The directory of finished points."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def load(self, key: str) -> tuple[Envelopes | None, str | None]:
        """Return the envelopes of a point, or `None` and, where a file was unusable, why."""
        path = self._path(key)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            envelopes: Envelopes = content["envelopes"]
            if content["sha256"] != _checksum(envelopes):
                raise ValueError("its checksum does not fit")
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError, KeyError, TypeError) as error:
            return None, f"{path}: damaged ({error}); this point is computed again"
        return envelopes, None

    def save(self, key: str, envelopes: Envelopes) -> None:
        """Keep the envelopes of a point."""
        content = {"sha256": _checksum(envelopes), "envelopes": envelopes}
        write_atomically(self._path(key), json.dumps(content).encode())

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}.json"


def _checksum(envelopes: Envelopes) -> str:
    return hashlib.sha256(json.dumps(envelopes, sort_keys=True).encode()).hexdigest()
