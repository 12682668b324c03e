#!/usr/bin/env python3
"""Measures the simulator of file systems at scale: wall time, memory and events per second.

Every run is a process of its own on one processor. Event rates are for a second of processor time, so that
other load on the machine shows in the wall time alone. They stand beside the published rate of the parallel simulator ROSS: 504 billion events a second on 1,966,080 cores of Blue Gene/Q (Barnes
et al., "Warp speed", PADS 2013), which is 256 thousand for each core. That is another machine and
another model (PHOLD), so the ratio says what one processor of today does, not which kernel is better.

example:
  bench/scale.py --quick                            up to 65,536 nodes, once
  bench/scale.py --out results/scale --repeat 3     up to two million nodes
  INTARSIA=target/release/intarsia bench/scale.py --cases local-writes --nodes 1048576
"""

import json
import os
import statistics
import sys
from pathlib import Path

import command_line
import processes

ROSS_EVENTS_PER_S_AND_CORE = 504e9 / 1_966_080
TARGET_S, TARGET_BYTES, TARGET_NODES = 600, 8 * 2**30, 2_097_152
NODES = "1,1024,65536,1048576,2097152"
QUICK_NODES = "1,1024,65536"

# Preset and changes. The mix sends a request and an answer for nearly all of its records and reads.
CASES = {
    "local-writes": ["--preset", "fusionsim-bgp"],
    "collective-io": ["--preset", "ior-bgp"],
    "mixed-torus": [
        *["--preset", "fusionsim-bgp", "--set", "workload.kind=mixed", "--set", "workload.files=2"],
        *["--set", "workload.transfers=4", "--set", "workload.transfer=1 MB"],
        *["--set", "workload.from=random"],
    ],
    "mixed-dragonfly": [
        *["--preset", "modern-dragonfly", "--set", "workload.files=2"],
        *["--set", "workload.transfers=4", "--set", "workload.transfer=1 MB"],
    ],
}


def parse_arguments():
    parser = command_line.parser(__doc__)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--nodes", help=f"numbers of nodes (default {NODES})")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--quick", action="store_true", help="small machines, once")
    parser.add_argument("--limit", type=int, default=1800, help="seconds for one run")
    parser.add_argument("--out", type=Path, help="folder for results.json and table.txt")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeat = 1
    arguments.nodes = arguments.nodes or (QUICK_NODES if arguments.quick else NODES)
    arguments.nodes = [int(count) for count in arguments.nodes.split(",")]
    arguments.cases = arguments.cases.split(",")
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"no case is called {', '.join(unknown)}; there are {', '.join(CASES)}")
    return arguments


def main():
    arguments = parse_arguments()
    binary = find_binary()
    samples = []
    # All cases in turn within a repetition, so that a drift of the machine meets all of them.
    for repetition in range(arguments.repeat):
        for nodes in arguments.nodes:
            for case in arguments.cases:
                sample = measure(binary, case, nodes, arguments.limit)
                samples.append({"repetition": repetition, **sample})
                print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    rows = summarise(samples)
    table = render(rows) + verdict(rows)
    print(table)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "table.txt").write_text(table + "\n")
        results = {"samples": samples, "summary": rows}
        (arguments.out / "results.json").write_text(json.dumps(results, indent=2))


def find_binary():
    default = Path(__file__).resolve().parent.parent / "target" / "release" / "intarsia"
    binary = Path(os.environ.get("INTARSIA", default)).resolve()
    if not binary.exists():
        sys.exit(f"scale.py: {binary} is missing: cargo build --release -p intarsia-cli")
    return binary


def measure(binary, case, nodes, limit_s):
    processor = min(os.sched_getaffinity(0))
    command = ["taskset", "--cpu-list", str(processor), binary, "simulate", "scale", *CASES[case]]
    cost = processes.run([*command, "--nodes", str(nodes), "--json"], limit_s=limit_s)
    (envelope,) = json.loads(cost.output)
    run = envelope["run"]
    return {
        "case": case,
        "nodes": nodes,
        "wall_s": run["wall_seconds"],
        "cpu_s": cost.cpu_s,
        "events": run["events"],
        "events_per_cpu_s": run["events"] / max(cost.cpu_s, 0.01),
        "peak_bytes": run["peak_bytes"],
        "messages": envelope["estimates"]["network.messages"]["mean"],
        "load": os.getloadavg()[0],
    }


def summarise(samples):
    groups = {}
    for sample in samples:
        groups.setdefault((sample["case"], sample["nodes"]), []).append(sample)
    keys = ("wall_s", "cpu_s", "events", "events_per_cpu_s", "peak_bytes", "messages", "load")
    return [
        {
            "case": case,
            "nodes": nodes,
            "n": len(found),
            **{key: statistics.median(sample[key] for sample in found) for key in keys},
        }
        for (case, nodes), found in groups.items()
    ]


def render(rows):
    header = (
        f"{'case':16}{'nodes':>9}{'n':>3}{'wall s':>9}{'CPU s':>9}{'events':>13}{'messages':>13}"
        f"{'M ev/CPU s':>12}{'/ ROSS core':>13}{'peak MiB':>10}{'B/node':>8}{'load':>6}\n"
    )
    lines = [
        f"{row['case']:16}{row['nodes']:>9}{row['n']:>3}{row['wall_s']:>9.2f}{row['cpu_s']:>9.2f}"
        f"{row['events']:>13.0f}{row['messages']:>13.0f}{row['events_per_cpu_s'] / 1e6:>12.2f}"
        f"{row['events_per_cpu_s'] / ROSS_EVENTS_PER_S_AND_CORE:>13.1f}"
        f"{row['peak_bytes'] / 2**20:>10.0f}{row['peak_bytes'] / row['nodes']:>8.0f}"
        f"{row['load']:>6.1f}\n"
        for row in rows
    ]
    return header + "".join(lines)


def verdict(rows):
    """How the largest machine stands to its target, case by case."""
    lines = [
        f"\n{row['case']}: {row['wall_s']:.0f} s (at most {TARGET_S}), "
        f"{row['peak_bytes'] / 2**30:.2f} GiB (at most {TARGET_BYTES / 2**30:.0f}): "
        + ("met" if row["wall_s"] <= TARGET_S and row["peak_bytes"] <= TARGET_BYTES else "MISSED")
        for row in rows
        if row["nodes"] == TARGET_NODES
    ]
    return "".join(lines)


if __name__ == "__main__":
    try:
        main()
    except processes.CommandFailed as failure:
        sys.exit(f"scale.py: {failure}")
