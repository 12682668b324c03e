"""Asking the program: an advice, and predictions of single configurations."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.store import StoreError, find_binary

_DEGRADED = 3


class AdviceError(Exception):
    """The program refused something; the text is what it said. `code` is its exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Program:
    """The program, and the files that an advice is made from; `seed` is that of the advice."""

    binary: Path
    workload: Path
    profile: Path
    seed: int = 1
    ignores_hints: bool = False

    def advise(self, words: Sequence[str]) -> tuple[dict[str, Any], int]:
        """Return an advice and the exit code, which says if something ends in time."""
        done = _run([self.binary, "advise", *words])
        if done.returncode not in (0, _DEGRADED):
            raise AdviceError(done.stderr.strip(), done.returncode)
        return json.loads(done.stdout), done.returncode

    def predict(
        self,
        configuration: Mapping[str, Any],
        scratch: Path,
        profile: Mapping[str, Any] | None,
        runs: int | None = None,
    ) -> dict[str, Any]:
        """Predict a configuration, on another profile if one is given; files go to `scratch`.

        Without a number of `runs` there are as many as give an interval.
        """
        with_form = {"format": "intarsia-configuration", "version": 1, **configuration}
        chosen = scratch / "configuration.json"
        chosen.write_text(json.dumps(with_form), encoding="utf-8")
        where = self.profile
        if profile is not None:
            where = scratch / "profile.json"
            where.write_text(json.dumps(profile), encoding="utf-8")
        words: list[str | Path] = [self.binary, "predict", self.workload, "--profile", where]
        words += ["--configuration", chosen, "--seed", str(self.seed), "--json"]
        words += ["--ignore-hints"] if self.ignores_hints else []
        words += ["--runs", str(runs)] if runs is not None else []
        done = _run(words)
        if done.returncode:
            raise AdviceError(done.stderr.strip(), done.returncode)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def locate() -> Path:
    """Find the program; raises AdviceError."""
    try:
        return find_binary()
    except StoreError as error:
        raise AdviceError(str(error)) from None


def _run(words: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)
