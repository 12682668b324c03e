"""Measured loads as CSV files, from which every table can be made again."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Floats, Load, load_of, points_of
from intarsia.characterise.model.base import Samples
from intarsia.simulate.files import write_atomically

COLUMNS = ("random", "read", "bytes", "outstanding", "latency_ms", "group")
"""Rows of one group were measured together and have the latency of all their requests."""


@dataclass(frozen=True)
class Measurements:
    """Single loads, and groups of loads that were measured together."""

    single: Samples
    groups: tuple[tuple[Load, ...], ...]
    group_latency_ms: Floats


def write(path: Path, measured: Measurements) -> None:
    """Write a file that `read` gives back."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for point, latency in zip(measured.single.points, measured.single.latency_ms, strict=True):
        rows.writerow([*(f"{value:g}" for value in point), f"{latency:.6g}", ""])
    for number, (group, latency) in enumerate(
        zip(measured.groups, measured.group_latency_ms, strict=True), 1
    ):
        for point in points_of(group):
            rows.writerow([*(f"{value:g}" for value in point), f"{latency:.6g}", number])
    write_atomically(path, text.getvalue().encode())


def read(path: Path) -> Measurements:
    """Read measured loads.

    Raises `CharacteriseError` that names the line and the column of what is wrong.
    """
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise CharacteriseError(f"{path}: this is no text; give a CSV file of samples") from None
    rows = list(csv.reader(text.splitlines()))
    if not rows:
        raise CharacteriseError(f"{path}: the file is empty; `measure` writes one")
    if tuple(rows[0]) not in (COLUMNS, COLUMNS[:-1]):
        raise CharacteriseError(
            f"{path}:1: the columns are {','.join(rows[0])[:80]}; they must be {','.join(COLUMNS)}"
        )
    if not text.endswith("\n"):
        raise CharacteriseError(
            f"{path}:{len(rows)}: the last line has no end, so the file was cut off; measure again"
        )
    single: list[tuple[Load, float]] = []
    groups: dict[str, list[tuple[Load, float]]] = {}
    for number, row in enumerate(rows[1:], 2):
        load, latency = _row(row, f"{path}:{number}", len(rows[0]))
        group = row[5] if len(row) > 5 else ""
        (groups.setdefault(group, []) if group else single).append((load, latency))
    if not single:
        raise CharacteriseError(f"{path}: no load was measured by itself; `measure` does that")
    return Measurements(
        _samples(single),
        tuple(tuple(load for load, _ in group) for group in groups.values()),
        np.array([group[0][1] for group in groups.values()]),
    )


def _samples(rows: Sequence[tuple[Load, float]]) -> Samples:
    return Samples(points_of([load for load, _ in rows]), np.array([ms for _, ms in rows]))


def _row(row: list[str], place: str, columns: int) -> tuple[Load, float]:
    if len(row) != columns:
        raise CharacteriseError(f"{place}: {len(row)} values instead of {columns}")
    try:
        values = [float(text) for text in row[:5]]
    except ValueError as error:
        raise CharacteriseError(f"{place}: {error}") from None
    if not all(math.isfinite(value) for value in values) or values[4] <= 0:
        raise CharacteriseError(f"{place}: latency_ms: {row[4]} is not above 0 ms")
    try:
        return load_of(np.array(values[:4])), values[4]
    except CharacteriseError as error:
        raise CharacteriseError(f"{place}: {error}") from None
