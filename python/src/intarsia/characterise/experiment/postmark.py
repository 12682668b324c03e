"""Runs of PostMark: many small files made, read, appended to and deleted.

PostMark's own clock has whole seconds, so the phases are timed here, by the lines that it prints at
their ends.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment.design import Design
from intarsia.characterise.experiment.factors import Experiment
from intarsia.characterise.experiment.target import Target

METRICS = {
    "tps": "1/s",
    "create_tps": "1/s",
    "read_tps": "1/s",
    "append_tps": "1/s",
    "delete_tps": "1/s",
    "read_throughput": "MB/s",
    "write_throughput": "MB/s",
}
USUAL = tuple(METRICS)
_PHASES = ("Creating files", "Performing transactions", "Deleting files")
_COUNTS = {
    "create_tps": r"Creation alone.*?Mixed with transactions: (\d+) files",
    "read_tps": r"(\d+) read \(",
    "append_tps": r"(\d+) appended \(",
    "delete_tps": r"Deletion alone.*?Mixed with transactions: (\d+) files",
}
_BYTES = {
    "read_throughput": r"([\d.]+) (\w+) read \(",
    "write_throughput": r"([\d.]+) (\w+) written \(",
}
_UNITS = {"bytes": 1, "kilobytes": 1024, "megabytes": 1024**2, "gigabytes": 1024**3}
_COMPLAINTS = ("Error", "Eh?", "out of files")
_SHORTEST_S = 0.2
_LIMIT_S = 900.0

Measured = tuple[dict[str, float], tuple[str, ...]]


@dataclass(frozen=True)
class Phases:
    """How long PostMark took, in s."""

    create_s: float
    transactions_s: float


def require(experiment: Experiment, design: Design, target: Target) -> None:
    """Raise `CharacteriseError` when PostMark is missing, or the target is no plain directory."""
    for program, package in (("postmark", "postmark"), ("stdbuf", "coreutils")):
        if shutil.which(program) is None:
            raise CharacteriseError(
                f"{program} is not in the PATH: install it (Debian: apt install {package})"
            )
    if not target.is_file_made:
        raise CharacteriseError(f"{target.label}: PostMark makes files, so give it a directory")


def run(experiment: Experiment, design: Design, row: int, target: Target) -> Measured:
    """Run a row of the design in a directory of its own, which is removed.

    Raises `CharacteriseError` with PostMark's last line when it fails.
    """
    options = experiment.options_of(design.run(row))
    lines = [f"set {name} {text}" for name, text in options.items()]
    with tempfile.TemporaryDirectory(prefix=".intarsia-postmark-", dir=target.path) as place:
        text, phases = _call([*lines, "set report verbose", "run", "quit"], Path(place))
    transactions = int(float(options.get("transactions", "500")))
    problems = []
    if phases.transactions_s < _SHORTEST_S:
        problems.append(f"transactions took less than {_SHORTEST_S:g} s")
    return metrics(text, phases, transactions), tuple(problems)


def metrics(report: str, phases: Phases, transactions: int) -> dict[str, float]:
    """Return the published metrics from a verbose report and the times of its phases.

    Rates are those of the phase of transactions; files that are made before it count for the bytes
    written, over both phases.
    """
    found = {"tps": transactions / phases.transactions_s}
    for name, pattern in _COUNTS.items():
        found[name] = float(_find(pattern, report)[1]) / phases.transactions_s
    seconds = {
        "read_throughput": phases.transactions_s,
        "write_throughput": phases.create_s + phases.transactions_s,
    }
    for name, pattern in _BYTES.items():
        match = _find(pattern, report)
        found[name] = float(match[1]) * _UNITS[match[2]] / seconds[name] / 1e6
    return found


def _find(pattern: str, report: str) -> re.Match[str]:
    match = re.search(pattern, report, re.DOTALL)
    if match is None:
        raise CharacteriseError(f"PostMark reports in another way; there is no '{pattern}'")
    return match


def _call(lines: list[str], place: Path) -> tuple[str, Phases]:
    with tempfile.NamedTemporaryFile("w", suffix=".pmrc") as config:
        config.write("\n".join(lines) + "\n")
        config.flush()
        # A line of its own for each phase, at once: so the phases can be timed.
        process = subprocess.Popen(
            ["timeout", f"{_LIMIT_S:g}", "stdbuf", "--output=L", "postmark", config.name],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with process:
            text, ends = "", [time.monotonic()]
            for line in process.stdout or ():
                text += line
                if line.startswith(_PHASES):
                    ends.append(time.monotonic())
    wrong = [line for line in text.splitlines() if any(word in line for word in _COMPLAINTS)]
    if process.returncode != 0 or wrong or len(ends) != len(_PHASES) + 1:
        said = wrong or text.strip().splitlines()[-1:] or ["no word"]
        raise CharacteriseError(f"PostMark failed ({said[0].strip()}) with: {'; '.join(lines)}")
    return text, Phases(ends[1] - ends[0], ends[2] - ends[1])
