"""What files of a rule cost in earlier runs: bytes, seconds, and how long they were needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from intarsia.learn.observed import File, Observed, Role


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over the files of a rule.

    `took_s` is what their makers took; `needed_s` how long a file was needed, from when it was
    made until its last reader was done, a result until the end of the run.
    """

    size_bytes: float
    took_s: float
    needed_s: float


def measured_in(runs: Iterable[Observed]) -> dict[Role, Measured]:
    """Return what each rule cost, where times were recorded; of several runs the last counts."""
    found = {}
    for run in runs:
        roles: dict[Role, list[File]] = defaultdict(list)
        for file in run.files:
            if file.made_s is not None and file.took_s is not None:
                roles[file.role].append(file)
        end_s = max((one.made_s or 0.0 for files in roles.values() for one in files), default=0.0)
        for role, files in roles.items():
            found[role] = _means(files, end_s)
    return found


def _means(files: Sequence[File], end_s: float) -> Measured:
    needed = [(_needed_until(file, end_s) - (file.made_s or 0.0)) for file in files]
    return Measured(
        sum(file.size_bytes for file in files) / len(files),
        sum(file.took_s or 0.0 for file in files) / len(files),
        sum(max(0.0, one) for one in needed) / len(files),
    )


def _needed_until(file: File, end_s: float) -> float:
    ends = [read.ended_s for read in file.reads if read.ended_s is not None]
    return max(ends) if ends and len(ends) == len(file.reads) else end_s
