"""Failure records: one row an outage of one node, read from CSV and checked field by field."""

from __future__ import annotations

import csv
import io
import lzma
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TextIO

import pandas as pd

LANL_CITATION = (
    "Los Alamos National Laboratory, LA-UR-05-7318; "
    "B. Schroeder and G. A. Gibson, DSN 2006 (doi:10.1109/DSN.2006.5)"
)

NO_SYSTEM = "all"
"""The system of records that name none."""

_LANL_FILE = "lanl-LA-UR-05-7318-1996-2005.csv.xz"
_LANL_TIME = "%m/%d/%Y %H:%M"


# Fewer digits are a date of ISO 8601, such as 20240531.
_EPOCH = re.compile(r"\d{9,}(\.\d*)?|\d(\.\d+)?e\+?\d{1,2}", re.IGNORECASE)
_MILLISECONDS_ABOVE = 1e11


class RecordError(ValueError):
    """A file of failure records cannot be used; the text names file, line, field and remedy."""


@dataclass(frozen=True)
class Columns:
    """Which column of a CSV file holds what.

    `started` is when the failure began and is the only one that must be there. Without `system`
    all records belong to one system, without `node` there are no fits per node, without `repaired`
    no repair times. A column with one of our names is found by itself. `time_format` is that of
    `datetime.strptime`; `None` means ISO 8601, or seconds or milliseconds since 1970 (UTC).
    """

    started: str = "started"
    repaired: str | None = None
    system: str | None = None
    node: str | None = None
    nodes: str | None = None
    time_format: str | None = None

    def completed(self, header: Sequence[str]) -> Columns:
        """Return the same with the columns that `header` calls by our names."""
        ours = ("repaired", "system", "node", "nodes")
        found = {name: name for name in ours if getattr(self, name) is None and name in header}
        return replace(self, **found)

    def named(self) -> dict[str, str]:
        """Return what is mapped: our name to the file's."""
        wanted = {
            "started": self.started,
            "repaired": self.repaired,
            "system": self.system,
            "node": self.node,
            "nodes": self.nodes,
        }
        return {ours: theirs for ours, theirs in wanted.items() if theirs is not None}


LANL_COLUMNS = Columns(
    started="Prob Started",
    repaired="Prob Fixed",
    system="System",
    node="nodenum",
    nodes="nodes",
    time_format=_LANL_TIME,
)


def lanl() -> pd.DataFrame:
    """Return the records of Los Alamos National Laboratory that come with this package.

    >>> records = lanl()
    >>> len(records), records["system"].nunique()
    (23739, 23)
    """
    packed = files("intarsia.simulate.failures") / "data" / _LANL_FILE
    text = lzma.decompress(packed.read_bytes()).decode("latin-1")
    return _read(io.StringIO(text, newline=""), _LANL_FILE, LANL_COLUMNS)


def read_records(path: Path, columns: Columns) -> pd.DataFrame:
    """Read a CSV file (also .csv.xz) of failures.

    The frame has the columns `system`, `node` (text), `nodes` (how many nodes the system has, 0 if
    unknown), `started` and `repaired` (times), in order of `started`. Nothing is repaired or left
    out silently: a field that cannot be read raises `RecordError`. An empty time of repair or
    number of nodes means that it is not recorded.
    """
    try:
        data = path.read_bytes()
        text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise RecordError(f"{path}: cannot be read as CSV in UTF-8: {error}") from error
    return _read(io.StringIO(text, newline=""), str(path), columns)


def _read(file: TextIO, name: str, columns: Columns) -> pd.DataFrame:
    reader = csv.DictReader(file, strict=True)
    header = list(reader.fieldnames or [])
    columns = columns.completed(header)
    for ours, theirs in columns.named().items():
        if theirs not in header:
            raise RecordError(
                f"{name}:1: no column `{theirs}` (for {ours}); the columns are: "
                f"{', '.join(header) or 'none'}. Map it with --column {ours}=NAME"
            )
    try:
        rows = list(_rows(reader, name, columns))
    except csv.Error as error:
        raise RecordError(f"{name}:{reader.line_num}: not CSV: {error}") from error
    if not rows:
        raise RecordError(f"{name}: no records after the header")
    frame = pd.DataFrame(rows, columns=["system", "node", "nodes", "started", "repaired"])
    frame["repaired"] = pd.to_datetime(frame["repaired"])
    # Records of one minute keep their order in the file.
    return frame.sort_values("started", kind="stable", ignore_index=True)


_Row = tuple[str, str, int, datetime, datetime | None]


def _rows(reader: csv.DictReader[str], name: str, columns: Columns) -> Iterator[_Row]:
    for row in reader:
        place = f"{name}:{reader.line_num}"
        if None in row or None in row.values():
            raise RecordError(f"{place}: not as many fields as the header has")
        started = _time(row[columns.started], place, columns.started, columns.time_format)
        repaired = None
        if columns.repaired and row[columns.repaired].strip():
            repaired = _time(row[columns.repaired], place, columns.repaired, columns.time_format)
            if repaired < started:
                raise RecordError(
                    f"{place}: field `{columns.repaired}`: {row[columns.repaired]} is before the "
                    f"failure at {row[columns.started]}; correct or remove the record"
                )
        yield (
            row[columns.system].strip() if columns.system else NO_SYSTEM,
            row[columns.node].strip() if columns.node else "",
            _count(row[columns.nodes], place, columns.nodes) if columns.nodes else 0,
            started,
            repaired,
        )


def _time(text: str, place: str, field: str, form: str | None) -> datetime:
    try:
        if form is not None:
            return _in_utc(datetime.strptime(text.strip(), form))
        if _EPOCH.fullmatch(text.strip()):
            return _since_1970(float(text))
        return _in_utc(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        wanted = (
            "ISO 8601, such as 2024-05-31T13:45, nor in seconds or milliseconds since 1970"
            if form is None
            else f"the form {form}"
        )
        raise RecordError(
            f"{place}: field `{field}`: {text!r} is no time of {wanted}; "
            "correct it or give --time-format"
        ) from None


def _since_1970(number: float) -> datetime:
    """Return the time so many seconds or, beyond the year 5000, milliseconds after 1970."""
    seconds = number / 1000 if number > _MILLISECONDS_ABOVE else number
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _in_utc(time: datetime) -> datetime:
    """Return a time of a known zone in UTC, any other as it is."""
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _count(text: str, place: str, field: str) -> int:
    if not text.strip():
        return 0
    try:
        return int(text)
    except ValueError:
        raise RecordError(f"{place}: field `{field}`: {text!r} is no whole number") from None
