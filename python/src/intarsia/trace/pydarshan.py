"""What PyDarshan reads of a binary log, as JSON on standard output; run as a process of its own.

The library of Darshan ends its process where a log is damaged, which must not end ours.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

#: MPI-IO comes on top of POSIX: it counts for files of which POSIX saw no bytes.
MODULES = ("POSIX", "STDIO", "MPI-IO")
#: Each read and write, where a program was traced so. MPI-IO comes on top here as well.
EXTENDED = "DXT_POSIX"
#: What is used of all counters of a record.
_USED = re.compile(r"_(BYTES_READ|BYTES_WRITTEN|MAX_BYTE_\w+|F_(READ|WRITE|META)_TIME)$")


def read(source: str) -> dict[str, Any]:
    """Return the head of a log, by the names of its text form, and the records of its files."""
    import darshan

    report = darshan.DarshanReport(source, read_all=False)
    told = report.metadata["job"]
    heads = {
        "exe": report.metadata.get("exe", ""),
        "nprocs": int(told["nprocs"]),
        "jobid": int(told.get("jobid", 0)),
        "start_time": float(told["start_time_sec"]) + float(told.get("start_time_nsec", 0)) / 1e9,
        "run time": float(told["run_time"]),
    }
    records: list[dict[str, Any]] = []
    for module in MODULES:
        if module in report.modules:
            report.mod_read_all_records(module)
            records += _records(report, module)
    return {"heads": heads, "records": records, "traced": _traced(report)}


def _traced(report: Any) -> list[dict[str, Any]]:
    """Return what extended tracing has of each file and rank, where there was any."""
    if EXTENDED not in report.modules:
        return []
    report.mod_read_all_dxt_records(EXTENDED, dtype="dict")
    cells = ("offset", "length", "start_time", "end_time")
    return [
        {
            "id": str(record["id"]),
            "rank": int(record["rank"]),
            "segments": [
                [kind, *(segment[cell] for cell in cells)]
                for kind in ("read", "write")
                for segment in record[f"{kind}_segments"]
            ],
        }
        for record in report.records[EXTENDED]
    ]


def _records(report: Any, module: str) -> list[dict[str, Any]]:
    found: dict[tuple[int, int], dict[str, Any]] = {}
    frames = report.records[module].to_df()
    for frame in (frames["counters"], frames["fcounters"]):
        for row in frame.to_dict("records"):
            identity, rank = int(row.pop("id")), int(row.pop("rank"))
            path = str(report.name_records.get(identity, identity))
            known = found.setdefault(
                (identity, rank),
                {"module": module, "rank": rank, "id": str(identity), "path": path, "counters": {}},
            )
            used = {name: float(value) for name, value in row.items() if _USED.search(name)}
            known["counters"] |= used
    return list(found.values())


if __name__ == "__main__":
    try:
        json.dump(read(sys.argv[1]), sys.stdout)
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        sys.exit(str(error))
