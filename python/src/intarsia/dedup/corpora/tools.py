"""Programs that bring real data."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from intarsia.dedup.errors import DedupError


def run(command: Sequence[str], what: str, directory: Path | None = None) -> str:
    """Run a program and return what it prints; raise DedupError with its last word if it fails."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [f"{command[0]} said nothing"]
        raise DedupError(f"{what}: {words[-1]}")
    return done.stdout
