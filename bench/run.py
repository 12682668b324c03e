#!/usr/bin/env python3
"""Compares Intarsia with the native file system, the FUSE floor and bindfs, all in one run.

Within each repetition every workload visits every system in turn, in an order that rotates from
one repetition to the next, so that noise and drift of the machine meet all of them alike.

example:
  bench/run.py --quick                                a first look, minutes
  bench/run.py --workloads fio-read,small --repeat 5 --out results/today
  bench/run.py --systems native,intarsia --workloads workflow --workflow 'sh ~/montage.sh'
"""

import datetime
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import command_line
import processes
import report
import touched
import workloads
from systems import SYSTEMS, Absent

DEFAULT_SYSTEMS = "native,floor,floor-writeback,bindfs,intarsia,intarsia-writeback"
IDLE_S, QUICK_IDLE_S = 30, 3


def parse_arguments():
    parser = command_line.parser(__doc__)
    parser.add_argument(
        "--systems",
        default=DEFAULT_SYSTEMS,
        help="comma-separated, of " + ", ".join(SYSTEMS) + " (default: %(default)s)",
    )
    parser.add_argument(
        "--workloads",
        default="all",
        help="names, leading parts or patterns: fio, fio-*-4k-1, small, git, untar, "
        "idle, workflow (default: all; the start is always timed)",
    )
    parser.add_argument("--repeat", type=int, help="repetitions (default 5, with --quick 2)")
    parser.add_argument("--quick", action="store_true", help="small sizes and two repetitions")
    parser.add_argument("--files", help="numbers of small files (default 10000, with --quick 1000)")
    parser.add_argument("--clients", help="numbers of client threads for small files (default 1,4)")
    parser.add_argument(
        "--fio-mib", type=int, help="size of each fio job (default 256, with --quick 64)"
    )
    parser.add_argument("--jobs", help="numbers of fio's jobs (default 1,4)")
    parser.add_argument("--workflow", help="shell command to time inside each file system")
    parser.add_argument(
        "--work",
        default="/var/tmp",
        help="folder on the disk to measure; all stores lie in it (default %(default)s)",
    )
    parser.add_argument("--out", help="results folder (default bench/results/TIME)")
    return parser.parse_args()


def numbers(text):
    return [int(part) for part in text.split(",")]


def settings_of(arguments, cache):
    quick = arguments.quick
    return workloads.Settings(
        fio_mib=arguments.fio_mib or (64 if quick else 256),
        fio_runtime_s=0.5 if quick else 1.5,
        jobs=numbers(arguments.jobs or "1,4"),
        files=numbers(arguments.files or ("1000" if quick else "10000")),
        clients=numbers(arguments.clients or "1,4"),
        workflow=arguments.workflow,
        cache=cache,
    )


class Runner:
    """Goes through all cells of the comparison and gathers their samples."""

    def __init__(self, names, work):
        self.names = names
        self.work = work
        self.samples = []
        self.failures = []

    def cell(self, repetition, workload, name):
        """One workload in one freshly started system."""
        system = SYSTEMS[name](name, self.work)
        load = os.getloadavg()[0]
        try:
            start_s = system.start()
            context = {
                "repetition": repetition,
                "system": name,
                "mode": system.mode(),
                "load": load,
            }
            if system.program:
                self.add(context, "start", workloads.Measure("mount", start_s, "s", "less"))
            self.steps(context, workload, system)
        except (processes.CommandFailed, OSError) as failure:
            self.fail(f"{workload.name} on {name}: {failure}")
        finally:
            self.stop(system)

    def steps(self, context, workload, system):
        directory = system.mount / "bench"
        directory.mkdir()
        touched.MEMORY.touch()
        workload.prepare(directory)
        settle(directory, self.work)
        pids = system.pids()
        prefix = self.pin(pids) if workload.pinned else []
        for step in workload.steps(directory, pids):
            before_s = processes.cpu_s(pids)
            cost = processes.run(
                prefix + step.command, cwd=step.cwd, env=step.env or None, limit_s=step.limit_s
            )
            server = (
                (processes.cpu_s(pids) - before_s, processes.peak_bytes(pids))
                if pids
                else (None, None)
            )
            for measure in step.measures(cost):
                self.add(context, workload.name, measure, cost, *server)
        workload.verify(directory)

    def pin(self, pids):
        """Puts client and server on one processor: the words to put before a client's command.

        Where the scheduler puts them decides up to tenfold about a request, and it decides anew in
        each run; on one processor only the work itself is left.
        """
        cpu = processes.last_cpu()
        processes.pin(pids, cpu)
        return ["taskset", "-c", str(cpu)]

    def idle(self, repetition, seconds):
        """All systems at once, since doing nothing does not disturb the others."""
        systems = [
            SYSTEMS[name](name, self.work)
            for name in self.names
            if SYSTEMS[name] is not SYSTEMS["native"]
        ]
        try:
            for system in systems:
                system.start()
            # What a start leaves to do in the background is no idle time.
            time.sleep(2)
            before = [processes.fine_cpu_s(system.pids()) for system in systems]
            load = os.getloadavg()[0]
            time.sleep(seconds)
            for system, before_s in zip(systems, before):
                used_s = processes.fine_cpu_s(system.pids()) - before_s
                context = {
                    "repetition": repetition,
                    "system": system.name,
                    "mode": system.mode(),
                    "load": load,
                }
                measure = workloads.Measure("cpu", 100 * used_s / seconds, "% of a core", "less")
                self.add(context, "idle", measure)
        except (processes.CommandFailed, OSError) as failure:
            self.fail(f"idle: {failure}")
        finally:
            for system in systems:
                self.stop(system)

    def add(self, context, workload, measure, cost=None, server_cpu_s=None, peak_bytes=None):
        client_cpu_s = (
            measure.client_cpu_s if measure.client_cpu_s is not None else cost and cost.cpu_s
        )
        if server_cpu_s is not None and measure.server_cpu_s is not None:
            server_cpu_s = measure.server_cpu_s
        self.samples.append(
            {
                "workload": workload,
                "metric": measure.metric,
                **context,
                "value": measure.value,
                "unit": measure.unit,
                "better": measure.better,
                "wall_s": cost and cost.wall_s,
                "client_cpu_s": client_cpu_s,
                "server_cpu_s": server_cpu_s,
                "cpu_us_per_operation": cpu_us(measure.operations, client_cpu_s, server_cpu_s),
                "server_peak_mib": peak_bytes and peak_bytes / workloads.MIB,
            }
        )

    def stop(self, system):
        try:
            system.stop()
        except (processes.CommandFailed, OSError, subprocess.SubprocessError) as failure:
            self.fail(f"stop of {system.name}: {failure}")

    def fail(self, message):
        self.failures.append(message)
        print(f"  FAILED {message}", flush=True)


def cpu_us(operations, client_cpu_s, server_cpu_s):
    """What one operation costs in all, which noise of the machine changes least."""
    if not operations or client_cpu_s is None:
        return None
    return (client_cpu_s + (server_cpu_s or 0)) / operations * 1e6


def settle(*folders):
    """Writes back what preparation left, so that the disk is quiet for the timed step."""
    for folder in folders:
        processes.run(["sync", "-f", str(folder)])


def present(names):
    """The systems that can be measured here; says why one is left out."""
    found = []
    for name in names:
        if name not in SYSTEMS:
            sys.exit(f"run.py: no system {name!r}; there are {', '.join(SYSTEMS)}")
        try:
            SYSTEMS[name](name, "/nonexistent").check()
            found.append(name)
        except Absent as reason:
            print(f"left out: {reason}")
    return found


def possible(chosen):
    """The workloads whose programs are installed; says what is missing."""
    found = []
    for workload in chosen:
        missing = workload.missing()
        if missing:
            print(f"left out: {workload.name} needs {', '.join(map(str, missing))}")
        else:
            found.append(workload)
    return found


def machine(work):
    model = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    kind = subprocess.run(["stat", "-f", "-c", "%T", work], capture_output=True, text=True)
    return {
        "kernel": platform.release(),
        "processor": model[0] if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "disk_file_system": kind.stdout.strip(),
        "load_at_start": os.getloadavg(),
        "time": datetime.datetime.now().isoformat(timespec="seconds"),
    }


def repeat(runner, chosen, count, idle_s):
    for repetition in range(count):
        for workload in chosen:
            turn = repetition % len(runner.names)
            order = runner.names[turn:] + runner.names[:turn]
            print(f"repetition {repetition + 1} of {count}: {workload.name}", flush=True)
            for name in order:
                runner.cell(repetition, workload, name)
        if idle_s:
            print(f"repetition {repetition + 1} of {count}: idle", flush=True)
            runner.idle(repetition, idle_s)


def main():
    arguments = parse_arguments()
    # A stop by signal must pass through the clean-up like any other end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = present(arguments.systems.split(","))
    if not names:
        sys.exit("run.py: nothing left to measure")
    work = Path(tempfile.mkdtemp(prefix="intarsia-bench-", dir=arguments.work))
    runner = Runner(names, work)
    host = machine(work)
    wanted = arguments.workloads.split(",")
    idle_s = (QUICK_IDLE_S if arguments.quick else IDLE_S) if {"all", "idle"} & set(wanted) else 0
    try:
        settings = settings_of(arguments, work / "sources")
        chosen = possible(workloads.choose(workloads.all_workloads(settings), wanted))
        if not chosen and not idle_s:
            sys.exit(f"run.py: no workload matches {arguments.workloads!r}")
        workloads.make_sources(settings.cache)
        repeat(runner, chosen, arguments.repeat or (2 if arguments.quick else 5), idle_s)
    finally:
        shutil.rmtree(work / "sources", ignore_errors=True)
        try:
            work.rmdir()
        except OSError:
            print(f"something is left in {work}")
    finish(arguments, runner, host)


def finish(arguments, runner, host):
    rows = report.summarise(runner.samples)
    found = report.verdicts(rows)
    text = report.table(rows) if rows else "no samples"
    if found:
        text += "\n\n" + report.verdict_table(found)
    text += "".join(f"\nFAILED {failure}" for failure in runner.failures)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = Path(arguments.out or Path(__file__).parent / "results" / stamp)
    report.save(
        folder,
        {
            "machine": host,
            "arguments": vars(arguments),
            "summary": rows,
            "targets": found,
            "failures": runner.failures,
            "samples": runner.samples,
            "table": text,
        },
    )
    print(f"\n{text}\n\nresults in {folder}")
    sys.exit(1 if runner.failures else 0)


if __name__ == "__main__":
    main()
