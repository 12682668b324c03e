"""Reading traces of block requests in the forms in which they are published and recorded."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.workload.records import Records, Row, from_rows
from intarsia.trace.errors import TraceError
from intarsia.trace.strace import read_requests

_SECTOR = 512
_LARGEST = 2**30
"""A request of more bytes than this is a unit that was mistaken."""


class Format(StrEnum):
    """A form of a trace."""

    MSR = "msr"
    """MSR Cambridge: time, host, disk, Read or Write, offset, size, response time (100 ns)."""
    ALIBABA = "alibaba"
    """Alibaba block traces: device, R or W, offset, length, time in µs; without latencies."""
    BLKPARSE = "blkparse"
    """What `blkparse` prints of `blktrace`: events Q, D and C of each request."""
    FIO = "fio"
    """A latency log of fio, written with `write_lat_log` and `log_offset=1`."""
    INTARSIA = "intarsia"
    """JSON, one request a line: `at_s`, `is_write`, `start`, `bytes`, `ms`."""
    STRACE = "strace"
    """The log of strace from which `intarsia trace` makes workloads; each file is a device."""


_BLKPARSE = re.compile(
    r"\s*(\d+,\d+)\s+\d+\s+\d+\s+(\d+\.\d+)\s+\d+\s+([A-Z]+)\s+([A-Z]+)\s+(\d+) \+ (\d+)"
)
_BLKPARSE_LINE = re.compile(r"\s*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d+\s+\d+\s+[A-Z]+")


_STRACE_LINE = re.compile(r"(\[pid +\d+\] +|\d+ +)?\d{6,}\.\d+ +(\w+\(|---|\+\+\+)")
_BLKTRACE = (b"\x07tae", b"eat\x07")
"""How the files begin that blktrace writes, by the order of bytes of its machine (version 7)."""
_LONGEST_MS = 3.6e6


def read(path: Path, form: Format | None = None, below: str = "/") -> Records:
    """Read a trace, plain or as .gz; its form is recognised unless given.

    Of a log of strace the files `below` that directory count. Raises `CharacteriseError` that names
    the line of what is wrong.
    """
    _require_no_blktrace(path)
    with _Lines(path) as lines:
        numbered = [(number, line.rstrip("\n")) for number, line in enumerate(lines, 1)]
    numbered = [(number, line) for number, line in numbered if line.strip()]
    if not numbered:
        raise CharacteriseError(f"{path}: the trace is empty")
    chosen = form or _recognise(numbered[0][1], path)
    if chosen is Format.STRACE:
        rows = list(_strace(numbered, path, below))
    else:
        rows = list(_READERS[chosen](numbered, path))
    if not rows:
        raise CharacteriseError(f"{path}: no request in {len(numbered)} lines of form {chosen}")
    return from_rows(rows)


def _require_no_blktrace(path: Path) -> None:
    with open(path, "rb") as file:
        if file.read(4) in _BLKTRACE:
            raise CharacteriseError(
                f"{path}: what blktrace writes is no text: give the output of blkparse -i {path}"
            )


class _Lines:
    """The lines of a file, with an error of ours when it is no text or was cut off."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Iterator[str]:
        is_packed = self._path.suffix == ".gz"
        self._file = gzip.open(self._path, "rt") if is_packed else open(self._path)
        return self._lines()

    def _lines(self) -> Iterator[str]:
        try:
            yield from self._file
        except (EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
            raise CharacteriseError(
                f"{self._path}: {error}: the file was cut off or is no text; fetch it again"
            ) from None

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _recognise(line: str, path: Path) -> Format:
    words = [word.strip() for word in line.split(",")]
    if line.lstrip().startswith("{"):
        return Format.INTARSIA
    if len(words) == 7 and words[3].lower() in ("read", "write"):
        return Format.MSR
    if len(words) == 5 and words[1].upper() in ("R", "W"):
        return Format.ALIBABA
    if len(words) >= 4 and all(word.removeprefix("0x").isalnum() for word in words):
        return Format.FIO
    if _BLKPARSE_LINE.match(line):
        return Format.BLKPARSE
    if _STRACE_LINE.match(line):
        return Format.STRACE
    raise CharacteriseError(
        f"{path}:1: '{line[:60]}' is of no form known ({', '.join(Format)}); give --format"
    )


Numbered = list[tuple[int, str]]


def _msr(lines: Numbered, path: Path) -> Iterator[Row]:
    for number, words in _words(lines, path, 7):
        time, host, disk, kind, offset, size, response = words
        if kind.lower() not in ("read", "write"):
            raise CharacteriseError(f"{path}:{number}: '{kind}' is neither Read nor Write")
        values = _numbers((time, offset, size, response), path, number)
        yield _row(
            values[0] / 1e7, kind.lower() == "read", values[1], values[2], values[3] / 1e4,
            f"{host}.{disk}", path, number,
        )  # fmt: skip


def _alibaba(lines: Numbered, path: Path) -> Iterator[Row]:
    for number, words in _words(lines, path, 5):
        device, kind, offset, size, time = words
        if kind.upper() not in ("R", "W"):
            raise CharacteriseError(f"{path}:{number}: '{kind}' is neither R nor W")
        values = _numbers((time, offset, size), path, number)
        yield _row(
            values[0] / 1e6, kind.upper() == "R", values[1], values[2], math.nan, device, path,
            number,
        )  # fmt: skip


def _blkparse(lines: Numbered, path: Path) -> Iterator[Row]:
    """Join the queueing (Q) or the issue (D) of a request with its completion (C)."""
    pending: dict[tuple[str, str, str], tuple[float, str]] = {}
    for number, line in lines:
        match = _BLKPARSE.match(line)
        if match is None:
            continue
        device, time, action, kind, sector, count = match.groups()
        key = (device, sector, count)
        is_data = ("R" in kind or "W" in kind) and int(count) > 0
        if action in ("Q", "D") and is_data:
            pending.setdefault(key, (float(time), kind))
        elif action == "C" and key in pending:
            start, kind = pending.pop(key)
            yield _row(
                start, "R" in kind, float(sector) * _SECTOR, float(count) * _SECTOR,
                (float(time) - start) * 1e3, device, path, number,
            )  # fmt: skip


def _fio(lines: Numbered, path: Path) -> Iterator[Row]:
    for number, line in lines:
        words = [word.strip() for word in line.split(",")]
        if len(words) < 5:
            raise CharacteriseError(
                f"{path}:{number}: a latency log needs an offset in each line: run fio with "
                "log_offset=1"
            )
        time, latency, kind, size = _numbers(words[:4], path, number)
        offset = float(int(words[4], 0)) if words[4] else math.nan
        if kind == 2:
            continue
        # The log has the end of a request in ms and its latency in ns.
        yield _row(
            time / 1e3 - latency / 1e9, kind == 0, offset, size, latency / 1e6, path.stem, path,
            number,
        )  # fmt: skip


def _intarsia(lines: Numbered, path: Path) -> Iterator[Row]:
    for number, line in lines:
        try:
            one = json.loads(line)
            yield _row(
                float(one["at_s"]), not one["is_write"], float(one["start"]), float(one["bytes"]),
                float(one["ms"]), str(one.get("stream", 0)), path, number,
            )  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, CharacteriseError):
                raise
            raise CharacteriseError(f"{path}:{number}: {error!r}: is the line complete?") from None


_FILE_BYTES = 2.0**50
"""Files stand so far apart that going from one to another is a seek."""


def _strace(lines: Numbered, path: Path, below: str) -> Iterator[Row]:
    try:
        found = read_requests(str(path), "".join(f"{line}\n" for _, line in lines), below)
    except TraceError as error:
        raise CharacteriseError(str(error)) from None
    if not found:
        raise CharacteriseError(
            f"{path}: no process reads or writes a file below {below}; say where with --below"
        )
    places = {name: number for number, name in enumerate(dict.fromkeys(one.file for one in found))}
    for one in found:
        start = places[one.file] * _FILE_BYTES + one.offset
        yield (
            one.at_s or 0.0, one.kind == "read", start, float(one.size), 1e3 * one.seconds, one.file
        )  # fmt: skip


_READERS: dict[Format, Callable[[Numbered, Path], Iterator[Row]]] = {
    Format.MSR: _msr,
    Format.ALIBABA: _alibaba,
    Format.BLKPARSE: _blkparse,
    Format.FIO: _fio,
    Format.INTARSIA: _intarsia,
}


def _words(lines: Numbered, path: Path, count: int) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(line for _, line in lines)
    for (number, line), words in zip(lines, rows, strict=True):
        if number == 1 and not any(letter.isdigit() for letter in line):
            continue  # names of columns
        if len(words) != count:
            raise CharacteriseError(
                f"{path}:{number}: {len(words)} values instead of {count}; was the file cut off?"
            )
        yield number, [word.strip() for word in words]


def _numbers(words: Iterable[str], path: Path, number: int) -> list[float]:
    try:
        return [float(word) for word in words]
    except ValueError as error:
        raise CharacteriseError(f"{path}:{number}: {error}") from None


def _row(
    start_s: float, reads: bool, offset: float, size: float, latency_ms: float, device: str,
    path: Path, number: int,
) -> Row:  # fmt: skip
    if not 0 < size <= _LARGEST:
        raise CharacteriseError(
            f"{path}:{number}: a request of {size:g} bytes; sizes are bytes, above 0 and up to "
            "1 GiB: are the columns and units those of the format?"
        )
    if latency_ms < 0 or offset < 0:
        raise CharacteriseError(f"{path}:{number}: a latency or an offset below zero")
    if latency_ms > _LONGEST_MS:
        raise CharacteriseError(
            f"{path}:{number}: a latency of {latency_ms / 1e3:.3g} s; are the columns and units "
            "those of the format?"
        )
    return start_s, reads, offset, size, latency_ms, device
