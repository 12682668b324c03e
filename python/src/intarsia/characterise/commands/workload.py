"""`workload`: what a load is, from a trace or from a device at work."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise import commands as shared
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.units import size_text
from intarsia.characterise.workload import Format, Records, Window, read, summarise, windows
from intarsia.characterise.workload.diskstats import watch
from intarsia.characterise.workload.windows import LENGTH_S, NUMBERS, Summary

_UNITS = {
    "random": "%",
    "read": "%",
    "bytes": "bytes",
    "outstanding": "",
    "latency_ms": "ms",
    "iops": "requests/s",
    "switches": "%",
    "seeks": "%",
}


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "workload",
        "describe a load: from a trace, or from a device at work",
        "Read share, randomness, sizes, outstanding requests, latency and seeks, as distributions "
        "over windows of time. Traces: MSR Cambridge, Alibaba, the output of blkparse, latency "
        "logs of fio (log_offset=1), JSON lines of our own, and logs of strace as `intarsia trace` "
        "reads them. --device watches /proc/diskstats, which does not tell of seeks.",
        "  python -m intarsia.characterise workload web_0.csv.gz\n"
        "  python -m intarsia.characterise workload trace.csv --device-of 7 --window 60 --json\n"
        "  python -m intarsia.characterise workload LOG --below /mnt/work     what strace saw\n"
        "  python -m intarsia.characterise workload --device sda --window 5 --count 12\n",
    )
    parser.add_argument("trace", type=Path, nargs="?", metavar="TRACE", help="plain or .gz")
    parser.add_argument("--format", type=Format, choices=list(Format), help="of the trace")
    parser.add_argument("--device-of", metavar="NAME", help="only this device of the trace")
    parser.add_argument(
        "--below",
        type=Path,
        metavar="DIR",
        default=Path("/"),
        help="of a log of strace: files below it count (/)",
    )
    parser.add_argument("--device", metavar="NAME", help="watch this device, such as sda")
    parser.add_argument("--window", type=float, default=LENGTH_S, help="length in s (20)")
    parser.add_argument("--count", type=shared.positive, default=6, help="windows to watch (6)")
    parser.add_argument("--json", action="store_true", help="print JSON, each window too")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Describe."""
    if (chosen.trace is None) == (chosen.device is None):
        raise CharacteriseError("give a trace, or --device to watch one")
    if chosen.window <= 0:
        raise CharacteriseError(f"--window {chosen.window:g}: give a length above 0 s")
    if chosen.device:
        _show_watched(list(watch(chosen.device, chosen.window, chosen.count)), chosen)
        return
    below = str(chosen.below.absolute())
    records = _chosen_device(read(chosen.trace, chosen.format, below), chosen)
    summary = summarise(records, chosen.window)
    if chosen.json:
        found = [asdict(one) for one in windows(records, chosen.window)]
        shared.print_json(_finite({**asdict(summary), "each": found}))
    else:
        _print(summary, sorted(set(records.device.tolist())))


def _chosen_device(records: Records, chosen: argparse.Namespace) -> Records:
    if chosen.device_of is None:
        return records
    part = records.of(chosen.device_of)
    if len(part) == 0:
        names = ", ".join(sorted(set(records.device.tolist()))[:10])
        raise CharacteriseError(f"--device-of {chosen.device_of}: the trace has {names}")
    return part


def _show_watched(found: Sequence[Window], chosen: argparse.Namespace) -> None:
    if chosen.json:
        shared.print_json(_finite([asdict(one) for one in found]))
        return
    if not found:
        shared.console().print(f"{chosen.device} did nothing")
        return
    rows = [
        [
            f"{one.start_s:.1f}", str(one.requests), f"{one.read:.0f}", size_text(one.bytes),
            f"{one.outstanding:.2g}", f"{one.latency_ms:.3g}",
        ]
        for one in found
    ]  # fmt: skip
    shared.print_table(
        ["from, s", "requests", "read, %", "size", "outstanding", "latency, ms"], rows, 0
    )


def _print(summary: Summary, devices: Sequence[str]) -> None:
    out = shared.console()
    shown = ", ".join(devices[:5]) + (" …" if len(devices) > 5 else "")
    out.print(
        f"{summary.requests} requests of {len(devices)} device{'s' * (len(devices) > 1)} "
        f"({shown}) in "
        f"{summary.seconds:.4g} s, {summary.windows} windows"
    )
    rows = []
    for name in NUMBERS:
        spread = summary.numbers[name]
        values = [_number(value) for value in (spread.mean, spread.p5, spread.p50, spread.p95)]
        rows.append([name.removesuffix("_ms"), *values, _UNITS[name]])
    shared.print_table(["by window", "mean", "5 %", "median", "95 %", "unit"], rows)
    out.print("sizes   " + _powers(summary.sizes))
    out.print("seeks   " + _powers(summary.seeks))


def _number(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.4g}"


def _powers(shares: dict[int, float]) -> str:
    most = sorted(shares.items(), key=lambda one: -one[1])[:6]
    words = [
        f"{'none' if p == 0 else '≤ ' + size_text(p)} {share:.0f} %" for p, share in sorted(most)
    ]
    return ", ".join(words) or "unknown"


def _finite(data: Any) -> Any:
    """Return data for JSON, which has no number that is none."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not np.isfinite(data) else data
