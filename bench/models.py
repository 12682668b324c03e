#!/usr/bin/env python3
"""Holds the model of `intarsia predict` against one in SimGrid, in the style of WRENCH's default storage, on a made-up platform.

No run is involved: this says how far two models are apart that know the same rates of disks and links, and what each takes.
Our model has chunks, frames and queues, theirs whole operations and fluid flows. `bench/predicted.py --simgrid` holds both
against runs.

example:
  bench/models.py
  bench/models.py --hosts 1,4,16 --mb 100
"""

import statistics
import tempfile
import types
from pathlib import Path

import command_line
import kept
import labs
import predicted
import simgrid_model

CASES = ("pipeline", "reduce", "broadcast", "scatter", "gather", "distribute", "reuse")
DISK = {"request_seconds": 0, "bytes_per_second": 1e8}


def profile(hosts):
    """Hosts of two slots, a disk of 100 MB/s and a link of 80 Mb/s; metadata and messages cost nothing."""
    return {
        "format": "intarsia-profile",
        "version": 1,
        "name": "made up",
        "hosts": hosts,
        "provenance": {"source": "assumed", "note": "disks of 100 MB/s, links of 80 Mb/s"},
        "host": {"slots": 2, "in_bytes_per_second": 1e7, "out_bytes_per_second": 1e7},
        "network": {"latency_seconds": 0, "loopback_bytes_per_second": 1e9},
        "manager": {"open_seconds": 0, "allocate_seconds": 0, "commit_seconds": 0},
        "tiers": [{"class": "ssd", "capacity_bytes": 10**12, "read": DISK, "write": DISK}],
    }


def main():
    """Ask both, and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--hosts", default="1,4", help="how many (%(default)s)")
    parser.add_argument("--mb", type=int, default=10, help="size of a case (%(default)s)")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    arguments = parser.parse_args()
    if why := simgrid_model.problem():
        parser.error(why)
    simgrid, apart = simgrid_model.SimGrid(), []
    print(f"commit {kept.commit()}; seconds; CPU of both programs with their start, in ms")
    for hosts in map(int, arguments.hosts.split(",")):
        predicting = "--hosts", hosts, "--scheduler", "location"
        system = types.SimpleNamespace(program=arguments.program, mounts=[None] * hosts, predicting=predicting)
        for name in CASES:
            case = predicted.Patterns({"name": name, "pattern": name, "width": 4, "mb": arguments.mb})
            work = case.workload({"crew": 0.01})
            with tempfile.TemporaryDirectory(prefix="bench-models-") as home:
                ours = predicted.makespan_s(system, Path(home), profile(hosts), work, 1)
                told = predicted.beside(simgrid, system, Path(home), profile(hosts), work)
            apart.append(abs(told["simgrid"] / ours - 1))
            cpu = " ".join(f"{name} {1000 * seconds:.0f}" for name, seconds in told["cpu_s"].items())
            print(f"{hosts:3} hosts {name:11} ours {ours:8.3f}  SimGrid {told['simgrid']:8.3f}  apart {apart[-1]:6.1%}   {cpu}")
    print(f"apart: median {statistics.median(apart):.1%}, worst {max(apart):.1%}, n = {len(apart)}")


if __name__ == "__main__":
    main()
