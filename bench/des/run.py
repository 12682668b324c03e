#!/usr/bin/env python3
"""Compares the event kernel with a plain heap, NeXosim, SimPy and SimGrid, all in one run.

Within each repetition every workload visits every system in turn, in an order that rotates from
one repetition to the next, so that noise and drift of the machine meet all of them alike. Rates are
events per second of processor time: one core, whatever else the machine does.

example:
  bench/des/run.py --quick                              a first look
  bench/des/run.py --repeat 5 --out results/des
  bench/des/run.py --systems intarsia,heap --workloads empty,phold-16384
"""

import argparse
import datetime
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import processes
import report

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
OURS = TARGET / "release/bench-des"
NEXOSIM = TARGET / "nexosim/release/bench-nexosim"
SIMPY_PYTHON = TARGET / "simpy/bin/python"
PEERS = Path(__file__).resolve().parent / "peers"
SIZES = (256, 1024, 16384, 131072, 1048576)
HOSTS = (8, 64, 1024)
WORKLOADS = ["empty", *(f"phold-{n}" for n in SIZES), *(f"star-{n}" for n in HOSTS)]

# Events to measure in a full run: some seconds each.
EVENTS = {"intarsia": 10_000_000, "heap": 5_000_000, "nexosim": 1_000_000, "simpy": 500_000}
STAR_ACTIVITIES = {"intarsia": 1_000_000, "simgrid": 100_000}
QUICK_PART = 5

# Workload: least events per second of processor time, most bytes for each pending event.
TARGETS = {
    "empty": (10e6, None),
    "phold-16384": (5e6, 100),
    "phold-131072": (None, 100),
    "phold-1048576": (3e6, 100),
}

ROSS_PER_CORE = 504e9 / 1_966_080
ROSS = f"""published, not measured here: ROSS, PHOLD on 1,966,080 Blue Gene/Q cores,
  504 G events/s, that is {ROSS_PER_CORE:,.0f} a core (P. D. Barnes et al.,
  Warp speed: executing Time Warp on 1,966,080 cores, PADS 2013)"""


class Absent(Exception):
    """A system that is not installed, and how to install it."""


def intarsia(kind, size, events, _):
    return bench_des("intarsia", kind, size, events)


def heap(kind, size, events, _):
    return bench_des("heap", kind, size, events)


def bench_des(kernel, kind, size, events):
    require(OURS, "cargo build --release -p intarsia-bench-des")
    options = ["--kernel", kernel, "--workload", kind, "--size", size, "--events", events]
    return [OURS, *options]


def nexosim(_, size, events, __):
    manifest = (PEERS / "nexosim/Cargo.toml").relative_to(ROOT)
    command = (
        f"cargo build --release --manifest-path {manifest} --target-dir {shown(TARGET)}/nexosim"
    )
    require(NEXOSIM, command)
    return [NEXOSIM, "--size", size, "--events", events]


def simpy(kind, size, events, _):
    venv = f"{shown(TARGET)}/simpy"
    require(SIMPY_PYTHON, f"python3 -m venv {venv} && {venv}/bin/pip install simpy==4.1.1")
    options = ["--workload", kind, "--size", size, "--events", events]
    return [SIMPY_PYTHON, PEERS / "phold_simpy.py", *options]


def simgrid(_, size, events, folder):
    require(Path("/usr/include/simgrid/s4u.hpp"), "apt-get install g++ libsimgrid-dev")
    program = folder / "star"
    if not program.exists():
        source = PEERS / "star_simgrid.cpp"
        processes.run(["g++", "-std=c++17", "-O2", "-o", program, source, "-lsimgrid"])
    return [program, size, events, "--log=root.thres:error"]


def require(path, command):
    if not path.exists():
        raise Absent(f"{path} is missing; make it with: {command}")


def shown(path):
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


# What each system runs, and what is to be known of it.
SYSTEMS = {
    "intarsia": (intarsia, ("empty", "phold", "star"), ""),
    "heap": (heap, ("empty", "phold"), "BinaryHeap loop, hand-written"),
    "nexosim": (nexosim, ("phold",), "1.0.0, self-scheduling, 1 thread"),
    "simpy": (simpy, ("empty", "phold"), "4.1.1, self-scheduling processes"),
    "simgrid": (simgrid, ("star",), "pure max-min, activities/s"),
}


def parse_arguments():
    usage, _, examples = __doc__.partition("example:")
    parser = argparse.ArgumentParser(
        description=usage,
        epilog="example:" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--systems",
        default=",".join(SYSTEMS),
        help="comma-separated (default: %(default)s)",
    )
    parser.add_argument(
        "--workloads",
        default=",".join(WORKLOADS),
        help="comma-separated; phold-N has N entities, star-N N hosts (default: %(default)s)",
    )
    parser.add_argument("--repeat", type=int, help="repetitions (default 5, with --quick 2)")
    parser.add_argument("--quick", action="store_true", help="fewer events and two repetitions")
    parser.add_argument("--out", help="results folder (default bench/results/des-TIME)")
    arguments = parser.parse_args()
    arguments.systems = chosen(parser, "--systems", arguments.systems, SYSTEMS)
    arguments.workloads = chosen(parser, "--workloads", arguments.workloads, None)
    arguments.repeat = arguments.repeat or (2 if arguments.quick else 5)
    return arguments


def chosen(parser, flag, text, known):
    names = text.split(",")
    for name in names:
        kind, _, size = name.partition("-")
        is_workload = name == "empty" or (kind in ("phold", "star") and size.isdecimal())
        if name not in known if known else not is_workload:
            choice = ", ".join(known or ("empty", "phold-N", "star-N"))
            parser.error(f"{flag}: '{name}' is not one of {choice}")
    return names


class Runner:
    """Goes through all cells of the comparison and gathers their samples."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.samples = []
        self.failures = []

    def run(self):
        systems = list(self.arguments.systems)
        for repetition in range(self.arguments.repeat):
            for workload in self.arguments.workloads:
                for name in systems:
                    self.cell(repetition, workload, name)
            systems = systems[1:] + systems[:1]

    def cell(self, repetition, workload, name):
        build, kinds, _ = SYSTEMS[name]
        kind, _, size = workload.partition("-")
        if kind not in kinds or any(failure.startswith(f"{name}:") for failure in self.failures):
            return
        events = (STAR_ACTIVITIES if kind == "star" else EVENTS)[name]
        events //= QUICK_PART if self.arguments.quick else 1
        load = os.getloadavg()[0]
        try:
            command = build(kind, int(size or 1), events, self.folder)
            cost = processes.run([str(part) for part in command])
        except Absent as absence:
            return self.fail(f"{name}: {absence}")
        except processes.CommandFailed as failure:
            return self.fail(f"{workload} on {name}: {failure}")
        self.samples.append(
            sample(repetition, workload, name, load, report.json.loads(cost.output))
        )

    def fail(self, message):
        self.failures.append(message)
        print(message, file=sys.stderr)


def sample(repetition, workload, name, load, measured):
    return {
        "repetition": repetition,
        "workload": workload,
        "system": name,
        "value": measured["events"] / measured["cpu_seconds"],
        "better": "more",
        "wall_rate": measured["events"] / measured["seconds"],
        **measured,
        "load": load,
    }


def summarise(samples):
    """One row for each workload and system, with the ratio of ours to it."""
    rows = []
    cells = {}
    for entry in samples:
        cells.setdefault((entry["workload"], entry["system"]), []).append(entry)
    for (workload, system), found in sorted(cells.items(), key=lambda cell: place(*cell[0])):
        ours = cells.get((workload, "intarsia"))
        values = [entry["value"] for entry in found]
        rows.append(
            {
                "workload": workload,
                "system": system,
                "n": len(found),
                "median": statistics.median(values),
                "min": min(values),
                "max": max(values),
                "ours_to_it": report.ratio(ours, found) if ours else None,
                "wall_rate": report.median_of(found, "wall_rate"),
                "cpu_seconds": report.median_of(found, "cpu_seconds"),
                "bytes_per_pending": report.median_of(found, "bytes_per_pending"),
                "load": report.median_of(found, "load"),
            }
        )
    return rows


def place(workload, system):
    kind, _, size = workload.partition("-")
    return (kind, int(size or 0), list(SYSTEMS).index(system))


def table(rows):
    columns = [
        "system",
        "n",
        "M/s of CPU",
        "min - max",
        "ours / it",
        "M/s of wall",
        "CPU s",
        "B/pending",
        "load",
    ]
    lines = [columns]
    for entry in rows:
        title = [f"{entry['workload']}: {unit(entry['workload'])}"]
        if title not in lines:
            lines.append(title)
        lines.append(cells_of(entry))
    widths = [max(len(line[i]) for line in lines if len(line) > 1) for i in range(len(columns))]
    return "\n".join(report.render(line, widths) for line in lines)


def unit(workload):
    return "activities" if workload.startswith("star") else "events"


def cells_of(entry):
    note = SYSTEMS[entry["system"]][2]
    return [
        "  " + entry["system"] + (f" ({note})" if note else ""),
        str(entry["n"]),
        millions(entry["median"]),
        f"{millions(entry['min'])} - {millions(entry['max'])}",
        report.plain(entry["ours_to_it"], 2),
        millions(entry["wall_rate"]),
        report.plain(entry["cpu_seconds"], 2),
        # A handful of pending events is lost in the program's own memory.
        report.plain(entry["bytes_per_pending"], 0) if is_large(entry["workload"]) else "-",
        report.plain(entry["load"], 1),
    ]


def is_large(workload):
    kind, _, size = workload.partition("-")
    return kind == "phold" and int(size) >= 10_000


def millions(rate):
    return f"{rate / 1e6:.3g}"


def verdicts(rows):
    lines = []
    for entry in rows:
        if entry["system"] != "intarsia" or entry["workload"] not in TARGETS:
            continue
        least, most_bytes = TARGETS[entry["workload"]]
        if least:
            text = f"{millions(entry['median'])} M/s of processor time (at least {millions(least)})"
            lines.append(verdict(entry, entry["median"] >= least, text))
        if most_bytes:
            found = entry["bytes_per_pending"]
            text = (
                f"{found:.0f} bytes for each pending event, entity included (at most {most_bytes})"
            )
            lines.append(verdict(entry, found <= most_bytes, text))
    ross = [
        f"  {entry['workload']}: ours is {entry['median'] / ROSS_PER_CORE:.0f} times that"
        for entry in rows
        if entry["system"] == "intarsia" and entry["workload"].startswith("phold")
    ]
    return "\n".join(["targets:", *lines, ROSS, *ross])


def verdict(entry, met, text):
    return f"  {'met   ' if met else 'MISSED'}  {entry['workload']}: {text}"


def main():
    arguments = parse_arguments()
    started = datetime.datetime.now().astimezone()
    with tempfile.TemporaryDirectory(prefix="bench-des-") as folder:
        runner = Runner(arguments, Path(folder))
        runner.run()
    if not runner.samples:
        sys.exit("bench/des/run.py: nothing could be measured")
    rows = summarise(runner.samples)
    text = "\n\n".join([table(rows), verdicts(rows), *runner.failures])
    print(text)
    out = Path(arguments.out or ROOT / f"bench/results/des-{started:%Y%m%d-%H%M%S}")
    result = {
        "started": started.isoformat(),
        "machine": {"node": platform.platform(), "processors": os.cpu_count()},
        "arguments": vars(arguments),
        "samples": runner.samples,
        "summary": rows,
        "failures": runner.failures,
        "table": text,
    }
    report.save(out, result)
    print(f"\nresults in {out}")
    sys.exit(1 if runner.failures else 0)


if __name__ == "__main__":
    main()
