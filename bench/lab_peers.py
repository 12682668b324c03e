#!/usr/bin/env python3
"""Compares a store over hosts of a lab with GlusterFS and MooseFS on the same hosts, in one run.

The systems take turns, each in a lab of its own with its data in memory (`--work`). CPU seconds are
those of every process in the lab's network namespaces. Times say what one client meets when all
hosts share this machine. `native` is a directory of this machine that all hosts share: the limit.

example:
  apt-get install glusterfs-server moosefs-master moosefs-chunkserver moosefs-client
  bench/lab_peers.py --systems intarsia,moosefs --files 1000 --repeat 1       a first look
  bench/lab_peers.py --repeat 5 --link 1gbit
"""

import json
import os
import statistics
import sys
import time

import command_line
import cluster
import lab_workflows
import labs
import peers
from labs import Absent


SYSTEMS = {
    "intarsia": labs.Intarsia,
    "intarsia-strict": labs.Strict,
    "native": labs.Native,
    "glusterfs": peers.GlusterFs,
    "glusterfs-replica2": peers.GlusterReplicated,
    "glusterfs-disperse": peers.GlusterDispersed,
    "moosefs": peers.MooseFs,
    "juicefs": peers.JuiceFs,
    "juicefs-coherent": peers.JuiceFsCoherent,
    "cephfs": peers.CephFs,
}


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="of %(default)s")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--link", help="rate of each link, such as 1gbit (default: unshaped)")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--mib", type=int, default=128, help="size of the large file")
    parser.add_argument(
        "--workflows",
        action="store_true",
        help="a mosaic by Montage, a program that is compiled and a file that goes from host to host, too",
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--idle", type=int, default=5, help="seconds of idleness to measure; 0 for none")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    labs.end_on_signals()
    chosen = arguments.systems.split(",")
    if unknown := set(chosen) - SYSTEMS.keys():
        parser.error(f"unknown system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    chosen = labs.present({name: SYSTEMS[name] for name in chosen}, arguments.program)
    inputs = None
    if arguments.workflows:
        try:
            inputs = lab_workflows.Inputs()
        except Absent as absent:
            parser.error(f"--workflows: {absent}")
    found = {name: [] for name in chosen}
    loads = []
    for number, name in labs.in_turn(chosen, arguments.repeat):
        if name not in found:
            continue
        loads.append(os.getloadavg()[0])
        try:
            found[name].append(measure(chosen[name], number, arguments, inputs))
        except SystemExit as failure:
            # What the others have shown so far is kept.
            print(f"{name} is left out from here on: {failure}", file=sys.stderr)
            del found[name]
    if arguments.json:
        said = {"arguments": vars(arguments), "loads": loads, "rounds": found}
        print(json.dumps(said, indent=1))
    elif found:
        show(found, loads, arguments)


def measure(kind, number, arguments, inputs):
    """One round of one system."""
    with kind(arguments.program, arguments.hosts, arguments.link, arguments.work) as system:
        row = lab_workflows.measure(system, number, inputs) if inputs else {}
        row |= cluster.small_and_large(system, number, arguments.files, arguments.mib)
        row["up on all hosts [s]"] = {"per_s": system.up_s}
        if arguments.idle > 0:
            cpu = system.cpu_s()
            time.sleep(arguments.idle)
            idle = (system.cpu_s() - cpu) / arguments.idle * 100
            row["idle [% of a core]"] = {"per_s": idle}
        return row


def show(found, loads, arguments):
    """A table a measurement: median, spread, CPU of the servers, ratio of the first system to each."""
    load = f"load {min(loads):.1f} to {max(loads):.1f}"
    print(f"{arguments.hosts} hosts of one machine, n = {arguments.repeat}, {load}")
    first = next(iter(found))
    for what in found[first][0]:
        print(f"\n{what}")
        ours = statistics.median(row[what]["per_s"] for row in found[first])
        for name, rows in found.items():
            values = [row[what]["per_s"] for row in rows]
            median = statistics.median(values)
            cpu = [row[what]["cpu_ms"] for row in rows if "cpu_ms" in row[what]]
            said = f"   CPU {statistics.median(cpu):.3f} ms" if cpu else ""
            ratio = f"{ours / median:6.2f}" if median else "     -"
            spread = f"{min(values):,.1f} - {max(values):,.1f}"
            print(f"  {name:20} {median:>10,.1f}   ({spread})   {first}/it {ratio}{said}")


if __name__ == "__main__":
    main()
