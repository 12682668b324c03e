"""Probes on another host, or in the same store through another mount point."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from intarsia.seed import probe
from intarsia.seed.errors import SeedError

_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a store is seen besides: its directory there, and the words that run a program there.

    Without words it is this host. The other host needs `python3` and nothing else.
    """

    directory: Path
    through: tuple[str, ...] = ()

    def far(self, name: str, count: int, limit_s: float) -> probe.Times:
        """Look at what was written here; `name` is the directory of the measurement."""
        directory = str(self.directory / name)
        call = f"far({directory!r}, {count})"
        source = Path(probe.__file__).read_text(encoding="utf-8")
        source += f"\nkeeps_disturbed = {probe.keeps_disturbed}\n"
        text = f"{source}\nimport json\nprint(json.dumps({call}))\n"
        words = [*self.through, "python3" if self.through else sys.executable, "-I", "-"]
        try:
            done = subprocess.run(
                words, input=text, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except FileNotFoundError:
            raise SeedError(f"--through: there is no program {words[0]!r}") from None
        except subprocess.TimeoutExpired:
            raise SeedError(f"{directory}: no answer from there in {limit_s:.0f} s") from None
        if done.returncode:
            said = done.stderr.strip()[-_SHOWN:] or f"exit code {done.returncode}"
            raise SeedError(
                f"{directory}: cannot be measured there: {said}\n"
                "help: is it the same directory, as the other host sees it?"
            )
        try:
            times: probe.Times = json.loads(done.stdout.splitlines()[-1])
        except (ValueError, IndexError):
            raise SeedError(f"{directory}: no times came from there") from None
        return times
