"""Workloads from Darshan logs: what `darshan-parser` prints, or binary ones by PyDarshan.

A task is a rank of a job. What all ranks of a job share is dealt over them: each reads and writes
its part, unless extended tracing tells which. Of a job that writes a file that another one reads,
the other one comes later.
"""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intarsia.trace import dxt, pydarshan
from intarsia.trace.errors import TraceError
from intarsia.trace.extents import Extent, Extents
from intarsia.trace.workload import Operation, Task, Workload

_PREFIXES = ("POSIX", "STDIO", "MPIIO")
_VERSION = re.compile(r"^3\.\d+")
_HEAD = re.compile(r"^# (?P<name>[\w ()*:-]+?): (?P<value>.*)$")
_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")
_COLUMNS = 8
#: What Darshan writes in the place of a counter that was not measured.
_UNKNOWN = -1.0
#: A clock that was set while a call went on may make it shorter than nothing, by so much.
_CLOCK_S = 1e-3
_HELP = "make it anew with: darshan-parser LOG > LOG.txt"


@dataclass(slots=True)
class _Record:
    """Counters of a file and a rank, -1 for all of them; `place` is where they stand."""

    place: str
    module: str
    rank: int
    identity: str
    path: str
    counters: dict[str, float] = field(default_factory=dict)

    def told(self, name: str) -> float:
        """Return a counter as it stands in the log, -1 where none does."""
        names = (f"{prefix}_{name}" for prefix in _PREFIXES)
        return next((self.counters[one] for one in names if one in self.counters), _UNKNOWN)

    def get(self, name: str) -> float:
        """Return a counter, 0 where there is none, or it was not measured."""
        return max(0.0, self.told(name))

    @property
    def is_moved(self) -> bool:
        """Whether any byte was read or written."""
        return self.get("BYTES_READ") > 0 or self.get("BYTES_WRITTEN") > 0


@dataclass(slots=True)
class _Job:
    """One log."""

    source: str
    program: str = ""
    number: int = 0
    ranks: int = 1
    began_s: float = 0.0
    run_s: float = 0.0
    records: dict[tuple[str, int, str], _Record] = field(default_factory=dict)
    traced: dxt.Segments = field(default_factory=dict)


def read_darshan(sources: Iterable[str], below: str) -> Workload:
    """Read logs of jobs that belong together; raises TraceError."""
    made = Workload("darshan", [])
    jobs = [_job(source, made.warnings) for source in sources]
    catalog: dict[str, Extents] = {}
    for number, job in enumerate(sorted(jobs, key=lambda job: (job.began_s, job.number)), start=1):
        made.tasks += _tasks(job, number, below, catalog, made)
    if not made.tasks:
        raise TraceError(jobs[0].source, "", f"no file below {below or '/'} is read or written")
    return made


def _tasks(
    job: _Job, number: int, below: str, catalog: dict[str, Extents], made: Workload
) -> list[Task]:
    """Make the tasks of a job: `catalog` has what was written of each file so far."""
    counted: dict[int, list[Operation]] = defaultdict(list)
    traced: dict[int, dxt.Rank] = {}
    busy: dict[int, float] = defaultdict(float)
    counters = []
    for record in _kept(job, below):
        _check(job, record)
        ranks = _ranks(job, record)
        took_s = sum(record.get(f"F_{kind}_TIME") for kind in ("READ", "WRITE", "META"))
        for rank in ranks:
            busy[rank] += took_s / len(ranks)
        if found := _segments(job, record, made):
            _follow(job, number, record, found, traced, catalog, made)
            continue
        counters.append(record)
        for rank in ranks:
            counted[rank] += _reads(record, rank, ranks, catalog, made)
    written: dict[str, Extents] = defaultdict(Extents)
    for record in counters:
        for rank, one in _writes(record, _ranks(job, record), number, made):
            counted[rank].append(one)
            at = sum(known.size for known in written[record.path])
            written[record.path].fill(Extent(at, at + one.size, one.file, 0))
    catalog |= written
    _note_traced(traced, catalog, made)
    return [
        _task(job, number, rank, _ordered(job, counted[rank], traced.get(rank), busy[rank]))
        for rank in sorted({*traced, *(rank for rank, found in counted.items() if found)})
    ]


def _ordered(
    job: _Job, counted: list[Operation], traced: dxt.Rank | None, busy_s: float
) -> list[Operation]:
    """Return what a rank does: counters do not tell in which order, nor when."""
    reads = [one for one in counted if one.kind == "read"]
    writes = [one for one in counted if one.kind == "write"]
    if traced is not None:
        return [*reads, *traced.operations(busy_s), *writes]
    return [*reads, Operation("compute", seconds=max(0.0, job.run_s - busy_s)), *writes]


def _task(job: _Job, number: int, rank: int, operations: list[Operation]) -> Task:
    return Task(
        f"{job.program}-{number}" + (f".{rank}" if job.ranks > 1 else ""),
        job.program,
        operations,
        began_s=job.began_s,
        ended_s=job.began_s + job.run_s,
    )


def _segments(job: _Job, record: _Record, made: Workload) -> dict[int, list[dxt.Segment]]:
    """Return what extended tracing has of a record; nothing where it has not all of it."""
    if record.module != "POSIX":
        return {}
    ranks = job.traced.get(record.identity, {})
    ranks = {rank: ranks[rank] for rank in _ranks(job, record) if rank in ranks}
    missing = [
        kind
        for kind, counter in (("read", "READ"), ("write", "WRITTEN"))
        if dxt.moved(ranks, kind) < record.get(f"BYTES_{counter}")
    ]
    if ranks and missing:
        made.warnings.append(
            f"{job.source}: extended tracing ended before {record.path} was closed; "
            "only its counters are used"
        )
    return {} if missing else ranks


def _follow(
    job: _Job,
    number: int,
    record: _Record,
    segments: dict[int, list[dxt.Segment]],
    traced: dict[int, dxt.Rank],
    catalog: dict[str, Extents],
    made: Workload,
) -> None:
    """Have each rank read and write a file as extended tracing tells."""
    size = max(dxt.reads_up_to(found) for found in segments.values())
    before = _known(record.path, size, catalog, made) if size else Extents()
    writers = [rank for rank, found in segments.items() if dxt.moved({rank: found}, "write")]
    is_shared = len(writers) > 1
    for rank, found in segments.items():
        own = ""
        if rank in writers:
            own = _name(record.path, rank, is_shared, number, made)
            made.files[own] = 0
        if rank not in traced:
            traced[rank] = dxt.Rank(job.began_s, job.began_s + job.run_s)
        traced[rank].take(record.path, own, found, before)


def _note_traced(traced: dict[int, dxt.Rank], catalog: dict[str, Extents], made: Workload) -> None:
    """Note what ranks have written, above what was there before."""
    fresh: dict[str, Extents] = defaultdict(Extents)
    for _, rank in sorted(traced.items()):
        made.files |= rank.sizes
        for path, extents in rank.written.items():
            for one in extents:
                fresh[path].fill(one)
    for path, extents in fresh.items():
        for one in catalog.get(path, ()):
            extents.fill(one)
        catalog[path] = extents


def _ranks(job: _Job, record: _Record) -> range:
    return range(job.ranks) if record.rank < 0 else range(record.rank, record.rank + 1)


def _kept(job: _Job, below: str) -> list[_Record]:
    """Return the records of files that count, each byte once."""
    found = {key: one for key, one in job.records.items() if _counts(one, below)}
    seen = {one.path for (module, *_), one in found.items() if module != "MPI-IO" and one.is_moved}
    return [
        one for (module, *_), one in found.items() if module != "MPI-IO" or one.path not in seen
    ]


def _known(path: str, size: int, catalog: dict[str, Extents], made: Workload) -> Extents:
    """Return what is known of a file read up to `size`: one that nobody wrote is an input."""
    if path not in catalog:
        catalog[path] = Extents()
        made.files[path] = 0
    extents = catalog[path]
    if all(one.name == path for one in extents) and made.files[path] < size:
        extents.fill(Extent(0, size, path, 0))
        made.files[path] = size
    return extents


def _reads(
    record: _Record,
    rank: int,
    ranks: range,
    catalog: dict[str, Extents],
    made: Workload,
) -> list[Operation]:
    """The part of a file that a rank reads, in pieces of what wrote it."""
    size = _reach(record, "READ")
    if not size:
        return []
    share = rank - ranks.start
    first, last = size * share // len(ranks), size * (share + 1) // len(ranks)
    return [
        Operation("read", one.name, one.offset, one.size)
        for one in _known(record.path, size, catalog, made).within(first, last)
    ]


def _writes(
    record: _Record,
    ranks: range,
    number: int,
    made: Workload,
) -> list[tuple[int, Operation]]:
    """What each rank writes of a file: files of their own, as a file has one writer."""
    size = _reach(record, "WRITTEN")
    found = []
    for share, rank in enumerate(ranks):
        first, last = size * share // len(ranks), size * (share + 1) // len(ranks)
        if first == last:
            continue
        name = _name(record.path, rank, len(ranks) > 1, number, made)
        made.files[name] = last - first
        found.append((rank, Operation("write", name, 0, last - first)))
    return found


def _name(path: str, rank: int, is_shared: bool, number: int, made: Workload) -> str:
    """Return a name for what a rank writes of a file, which no other file has."""
    name = path + (f"#{rank}" if is_shared else "")
    if name in made.files:
        name = f"{name}@{number}" + ("" if is_shared else f".{rank}")
    return name


def _reach(record: _Record, kind: str) -> int:
    """Bytes of a file that are read or written: as far as that reached, but no more than moved."""
    moved = record.get(f"BYTES_{kind}")
    last = record.get(f"MAX_BYTE_{kind}")
    return int(min(moved, last + 1) if last > 0 else moved)


def _counts(record: _Record, below: str) -> bool:
    return record.path not in _STREAMS and record.path.startswith(below.rstrip("/") + "/")


def _check(job: _Job, record: _Record) -> None:
    wanted = [(f"BYTES_{kind}", 0.0) for kind in ("READ", "WRITTEN")]
    wanted += [(f"F_{kind}_TIME", -_CLOCK_S) for kind in ("READ", "WRITE", "META")]
    for name, least in wanted:
        if record.told(name) < least and record.told(name) != _UNKNOWN:
            raise TraceError(
                job.source,
                record.place,
                f"{record.path}: {name} of rank {record.rank} is negative",
                "the log is damaged, or its program was not monitored to its end",
            )


def _job(source: str, warnings: list[str]) -> _Job:
    try:
        content = Path(source).read_bytes()
    except OSError as error:
        raise TraceError(source, "", error.strerror or str(error)) from None
    if content[:1] == b"#" or b"\n#" in content[:200]:
        return _text(source, content.decode("utf-8", "backslashreplace"), warnings)
    return _binary(source)


def _text(source: str, text: str, warnings: list[str]) -> _Job:
    """Read what `darshan-parser` printed."""
    job = _Job(source)
    heads: dict[str, str] = {}
    lines = text.split("\n")
    if lines[-1]:
        raise TraceError(source, f"line {len(lines)}", "the text ends within a line", _HELP)
    for number, line in enumerate(lines, start=1):
        if found := _HEAD.match(line):
            heads.setdefault(found["name"], found["value"])
            if "WARNING" in line:
                warnings.append(f"{source}:{number}: {line.strip('# ')}")
        elif line and not line.startswith("#") and not dxt.is_row(line):
            _row(source, number, line, job)
    _settle(source, job, heads)
    job.traced = dxt.of_text(source, enumerate(lines, start=1))
    if job.traced and not job.records:
        raise TraceError(source, "", "extended tracing alone has no counters", dxt.HELP)
    return job


def _row(source: str, number: int, line: str, job: _Job) -> None:
    """Read a line: module, rank, record, counter, value, path, mount point, file system."""
    place, cells = f"line {number}", line.split("\t")
    if len(cells) < _COLUMNS:
        what = f"{len(cells)} columns instead of {_COLUMNS}"
        raise TraceError(source, place, what, _HELP)
    module, rank, identity, counter, value, path = cells[:6]
    if module not in pydarshan.MODULES:
        return
    try:
        known = job.records.setdefault(
            (module, int(rank), identity), _Record(place, module, int(rank), identity, path)
        )
        known.counters[counter] = float(value)
    except ValueError:
        raise TraceError(source, place, f"{counter}: {value!r} is no number", _HELP) from None


def _settle(source: str, job: _Job, heads: dict[str, str]) -> None:
    version = heads.get("darshan log version", "")
    if not _VERSION.match(version):
        told = f"version {version} of Darshan is unknown" if version else "no 'darshan log version'"
        raise TraceError(source, "header", told, f"3.x is known; {_HELP}")
    try:
        _take_heads(job, heads)
    except KeyError as missing:
        raise TraceError(source, "header", f"no {missing}", _HELP) from None
    except ValueError as error:
        raise TraceError(source, "header", str(error), _HELP) from None


def _take_heads(job: _Job, heads: Mapping[str, Any]) -> None:
    job.ranks = int(heads["nprocs"])
    job.number = int(heads.get("jobid", 0))
    job.began_s = float(heads.get("start_time") or heads["start_time_sec"])
    job.run_s = float(heads.get("run time") or heads["run_time"])
    job.program = Path((heads.get("exe", "").split() or ["job"])[0]).name


def _binary(source: str) -> _Job:
    """Read a binary log by PyDarshan, in a process of its own: a damaged log may end that."""
    if importlib.util.find_spec("darshan") is None:
        raise TraceError(
            source,
            "",
            "a binary log needs PyDarshan",
            f"pip install darshan, or {_HELP.removeprefix('make it anew with: ')}",
        )
    words = [sys.executable, "-m", pydarshan.__name__, source]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip().rpartition("\n")[2]
        if done.returncode < 0:
            why = f"it was ended by {signal.Signals(-done.returncode).name}"
        raise TraceError(source, "", f"PyDarshan cannot read it: {why}", "is it whole?")
    found = json.loads(done.stdout.splitlines()[-1])
    job = _Job(source)
    _take_heads(job, found["heads"])
    for one in found["records"]:
        module, rank, identity = one["module"], one["rank"], one["id"]
        made = _Record(f"record {identity}", module, rank, identity, one["path"], one["counters"])
        job.records[module, rank, identity] = made
    job.traced = dxt.of_records(source, found["traced"])
    return job
