#!/usr/bin/env python3
"""Replays recorded workflows by `intarsia run` over the hosts of a lab, under several schedules, with hints and without.

Also runs real ones, of the programs of Montage and BLAST, whose inputs are dealt over the hosts and whose result has to be the same in every run.

Each instance of WfFormat is scaled to the same bytes that its tasks read when each host reads a file once (--mb), and to the same
seconds of computation, which are slept (--compute-s); one task at a time runs on each host. The makespan is from the first task's
readiness to the end of the last one: inputs are dealt over the hosts before. Network bytes are what the hosts' links receive
meanwhile, with the scheduler's own messages. Copies made ahead count as local reads. A task that fails is tried again, twice at most, and
counted. The central server is MooseFS with all names and bytes on a host of its own; `local-directory` is a directory of this machine that all
hosts share, which no network slows down. Where the processors were busy for more than 80 % of a run, that is marked: then the machine, not
the links, may be what is measured.

example:
  .venv/bin/python bench/workflows.py --quick                   a first look: two workflows, once
  .venv/bin/python bench/workflows.py --hosts 8 --link 200mbit --mb 400 --repeat 5
  .venv/bin/python bench/workflows.py --instances montage,blast --configurations blind,wow-hints --json
  .venv/bin/python bench/workflows.py --instances modftdock --hosts 8 --mb 6      by its published shape
  .venv/bin/python bench/workflows.py --instances montage-programs,blast-programs --hosts 16 --link 25mbit
"""

import contextlib
import hashlib
import itertools
import json
import lzma
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import command_line
import kept
import labs
import peers
import programs
import shapes
import touched

INSTANCES = Path(__file__).with_name("instances")
BUSY_LIMIT = 0.8
LIMIT_S = 600
# System, and options of `intarsia run`.
CONFIGURATIONS = {
    "central": ("central", "--schedule workqueue --hints none"),
    "moosefs": ("moosefs", "--schedule workqueue --hints none"),
    "glusterfs": ("glusterfs", "--schedule workqueue --hints none"),
    "blind": ("intarsia", "--schedule workqueue --hints none"),
    "blind-hints": ("intarsia", "--schedule workqueue"),
    "local": ("intarsia", "--schedule local --hints none"),
    "local-hints": ("intarsia", "--schedule local"),
    # As TaskVine by default: of the hosts that are free the one with most bytes of the input.
    "vine-like": ("intarsia", "--schedule local --patience 0 --in-order --hints none"),
    "wow-like": ("intarsia", "--schedule wow --hints none"),
    "wow-hints": ("intarsia", "--schedule wow"),
    "local-directory": ("local", "--schedule workqueue --hints none"),
}
SYSTEMS = {
    "central": peers.Central,
    "moosefs": peers.MooseFs,
    "glusterfs": peers.GlusterFs,
    "intarsia": labs.Intarsia,
    "local": labs.Native,
}
# As sshd does: a shell of the host reads the words. What is mounted at the common path is seen by the command alone.
SHELL = """#!/bin/sh
host=$1; shift
exec {program} lab exec --lab {lab} "$host" -- unshare --mount sh -c '
  mount --bind "$1" "$2"; shift 2; cd /; exec sh -c "$*"' sh {mounts}-"$host" {common} "$@"
"""


class Replay:
    """A file of `intarsia run` and so many tasks, whose bytes and seconds are taken times factors."""

    def __init__(self, name, file, tasks, scale=1, time_scale=1):
        self.name, self.file, self.tasks = name, file, tasks
        self.scale, self.time_scale = scale, time_scale

    @property
    def words(self):
        """The factors as options."""
        return ["--scale", self.scale, "--time-scale", self.time_scale]

    def bring(self, directories):
        """The run makes its inputs itself."""

    def check(self, directory):
        """There is no result but lengths, which the run itself looks at."""


class Instance(Replay):
    """A recorded workflow, and the factors that scale it."""

    def __init__(self, name, document, arguments, place):
        file = place / f"{name}.json"
        file.write_text(json.dumps(document))
        workflow = document["workflow"]
        sizes = {file["id"]: file["sizeInBytes"] for file in workflow["specification"]["files"]}
        tasks = workflow["specification"]["tasks"]
        readers = Counter(file for task in tasks for file in task.get("inputFiles", []))
        read = sum(sizes[file] * min(count, arguments.hosts) for file, count in readers.items())
        computed = (task["runtimeInSeconds"] * min(task.get("avgCPU", 100), 100) / 100 for task in workflow["execution"]["tasks"])
        super().__init__(name, file, len(tasks), arguments.mb * 1e6 / read, arguments.compute_s / sum(computed))


class Program:
    """A real workflow."""

    words = ()

    def __init__(self, name, place, size="large"):
        self.name, self.digest = name, None
        self.file, self.inputs, self.tasks, self.result = programs.written(name, place, size)

    def bring(self, directories):
        """Deal the inputs over the hosts, each of which has the directory of the run at one of these paths."""
        files = sorted(path.relative_to(self.inputs) for path in self.inputs.rglob("*") if path.is_file())
        for file, directory in zip(files, itertools.cycle(directories)):
            (directory / file.parent).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.inputs / file, directory / file)

    def check(self, directory):
        """End with a message unless the result is that of the first run."""
        digest = hashlib.sha256((directory / self.result).read_bytes()).hexdigest()
        self.digest = self.digest or digest
        if digest != self.digest:
            sys.exit(f"{self.name}: {directory / self.result} has other bytes than in the first run")


def instance_of(name, arguments, place):
    """A workflow by its name."""
    if name in programs.MAKERS:
        return Program(name, place)
    return Instance(name, document_of(name), arguments, place)


def document_of(name):
    """An instance, recorded or made by its shape; of a family that is in several places not that of a folder."""
    if name in shapes.SHAPES:
        return shapes.SHAPES[name]()
    (path,) = list(INSTANCES.glob(f"{name}-*.xz")) or INSTANCES.glob(f"*/{name}-*.xz")
    return json.loads(lzma.open(path).read())


class Meter:
    """Bytes that the hosts' links have received and the time that processors were busy, sampled beside a run."""

    def __init__(self, system):
        spaces = {}
        for entry in system.processes():
            spaces.setdefault(os.readlink(entry / "ns/net"), entry / "net/dev")
        self.counters = list(spaces.values())
        self.samples = []
        self.ends = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def sample(self):
        """Ten times a second, until the run is over."""
        while True:
            self.samples.append((time.time(), sum(map(received, self.counters)), *kept.busy_s()))
            if self.ends.wait(0.1):
                return

    def between(self, began, ended):
        """Bytes, and the share of the time that the processors were busy."""
        first = max((one for one in self.samples if one[0] <= began), default=self.samples[0])
        last = min((one for one in self.samples if one[0] >= ended), default=self.samples[-1])
        return last[1] - first[1], (last[2] - first[2]) / max(1e-9, last[3] - first[3])


def received(counters):
    """Bytes that the link of a host has received."""
    for line in counters.read_text().splitlines():
        if line.strip().startswith("eth0:"):
            return int(line.split(":")[1].split()[0])
    return 0


class Runner:
    """Runs instances over the hosts of one system that is up."""

    def __init__(self, system, kind):
        self.system, self.runs = system, 0
        self.hosts = [f"n{n}" for n in system.numbers()][kind == "central" :]
        self.common = system.dir / "work"
        self.common.mkdir()
        self.script = system.dir / "on"
        place = {"program": Path(system.program).absolute(), "lab": system.lab, "mounts": system.dir / "mnt", "common": self.common}
        self.script.write_text(SHELL.format(**place))
        self.script.chmod(0o755)
        # What keeps the name of a host's network, for the meter.
        for n in system.numbers():
            system.background(n, "sleep", "86400")

    def run(self, instance, options, hosts=None):
        """One run in a new directory, on these hosts or on all: makespan, bytes over the network, share of local reads, busy share of the processors."""
        self.runs += 1
        hosts = hosts or self.hosts
        directories = [self.system.mount(int(host[1:])) / f"run{self.runs}" for host in hosts]
        directory = directories[0]
        directory.mkdir()
        instance.bring(directories)
        record, state = self.system.dir / "record.json", self.system.dir / f"state{self.runs}"
        words = [sys.executable, "-m", "intarsia.run", instance.file, "--directory", self.common / directory.name]
        words += ["--run-dir", state, "--record", record, "--quiet", "--json", "--retries", "2"]
        words += ["--hosts", ",".join(hosts), "--shell", f"{self.script} {{host}}", "--slots", "1"]
        words += ["--address", self.system.addresses[int(self.hosts[0][1:])], *options.split()]
        words += ["--link", self.system.link, *instance.words]
        touched.MEMORY.touch()
        with Meter(self.system) as meter:
            summary = self.call(shlex.join(map(str, words)), state / "logs")
        told = json.loads(record.read_text())["workflow"]["execution"]
        began = datetime.fromisoformat(told["executedAt"]).timestamp()
        network, busy = meter.between(began, began + told["makespanInSeconds"])
        instance.check(directory)
        shutil.rmtree(directory)
        share = summary["local_bytes"] / summary["input_bytes"] if summary["input_bytes"] else None
        return {
            "makespan_s": summary["makespan_s"],
            "network_bytes": network,
            "local_share": share,
            "busy": busy,
            "copied_ahead_bytes": summary["copied_ahead_bytes"],
            "tried_again": summary["attempts"] - instance.tasks,
            "load": os.getloadavg()[0],
            "engine": json.loads((state / "engine.json").read_text()),
        }

    def call(self, command, logs):
        """The run itself, as the first host's process."""
        environment = os.environ | {"PYTHONPATH": str(labs.ROOT / "python/src")}
        words = [self.script, self.hosts[0], command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        if done.returncode:
            said = "".join(f"{log.name}: {log.read_text()[-600:]}\n" for log in logs.glob("*.[0-9]*.log"))
            sys.exit(f"{command}\nended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}{said[-4000:]}")
        return json.loads(done.stdout)


def measured(arguments, instances, chosen):
    """All samples: by instance, then by configuration. Configurations take turns within each round."""
    found = {one.name: {name: [] for name in chosen} for one in instances}
    systems = dict.fromkeys(CONFIGURATIONS[name][0] for name in chosen)
    for number, kind in labs.in_turn(systems, arguments.repeat):
        hosts = arguments.hosts + (kind == "central")
        with SYSTEMS[kind](arguments.program, hosts, arguments.link, arguments.work) as system:
            runner = Runner(system, kind)
            names = [name for name in chosen if CONFIGURATIONS[name][0] == kind]
            names = names[number % len(names) :] + names[: number % len(names)]
            for instance in instances:
                for name in names:
                    sample = runner.run(instance, CONFIGURATIONS[name][1])
                    found[instance.name][name].append(sample)
                    said = f"{sample['makespan_s']:.1f} s, {sample['network_bytes'] / 1e6:.0f} MB, busy {100 * sample['busy']:.0f} %"
                    print(f"  {instance.name}, {name}: {said}", file=sys.stderr, flush=True)
                    if arguments.out:
                        arguments.out.write_text(json.dumps({"arguments": vars(arguments), "samples": found}, indent=1, default=str))
    return found


def middle(samples, key):
    """The median of a figure."""
    return statistics.median(one[key] for one in samples)


def print_table(arguments, instances, found):
    """A table for each instance, in the Markdown of docs/figures.md."""
    loads = [one["load"] for by_name in found.values() for samples in by_name.values() for one in samples]
    print(
        f"{arguments.hosts} hosts of one machine, links {arguments.link}; of recorded ones {arguments.mb} MB to read, of each file once a host, and {arguments.compute_s:g} s slept in all, "
        f"n = {arguments.repeat}, load {min(loads):.1f} to {max(loads):.1f}. Median (least-most). * more than 80 % of the processors were busy."
    )
    for instance in instances:
        by_name = found[instance.name]
        print(f"\n{instance.name} ({instance.tasks} tasks)\n\n| | makespan [s] | of blind | network [MB] | local reads | processors busy | tried again |\n|---|---:|---:|---:|---:|---:|---:|")
        for name, samples in by_name.items():
            times = [one["makespan_s"] for one in samples]
            ratio = statistics.median(times) / middle(by_name["blind"], "makespan_s") if by_name.get("blind") else 1
            share = "" if CONFIGURATIONS[name][0] != "intarsia" else f"{100 * middle(samples, 'local_share'):.0f} %"
            mark = "*" if any(one["busy"] > BUSY_LIMIT for one in samples) else ""
            print(
                f"| {name} | {statistics.median(times):.1f} ({min(times):.1f}-{max(times):.1f}) | {ratio:.2f} | "
                f"{middle(samples, 'network_bytes') / 1e6:.0f} | {share} | {100 * middle(samples, 'busy'):.0f} %{mark} | "
                f"{sum(one.get('tried_again', 0) for one in samples) or ''} |"
            )


def options():
    """The command line."""
    parser = command_line.parser(__doc__)
    families = sorted(path.name.split("-")[0] for path in INSTANCES.glob("*.xz"))
    known = [*families, *shapes.SHAPES, *programs.MAKERS]
    parser.add_argument("--instances", default=",".join(families), help=f"of {','.join(known)} (%(default)s)")
    parser.add_argument("--configurations", default=",".join(CONFIGURATIONS), help="of %(default)s")
    parser.add_argument("--hosts", type=int, default=4, help="that run tasks (%(default)s)")
    parser.add_argument("--mb", type=int, default=150, help="that tasks read, of each file once a host (%(default)s)")
    parser.add_argument("--compute-s", type=float, default=4.0, help="of computation of all tasks together (%(default)s)")
    parser.add_argument("--link", default="100mbit", help="rate of each link (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="montage and blast, 50 MB, once")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--out", type=Path, help="write all samples here, as they come")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.instances, arguments.mb, arguments.repeat = "montage,blast", 50, 1
    for given, names in ((arguments.instances, known), (arguments.configurations, CONFIGURATIONS)):
        for name in given.split(","):
            if name not in names:
                parser.error(f"'{name}' is none of {', '.join(names)}")
    return arguments


def main():
    """Measure and print."""
    arguments = options()
    labs.end_on_signals()
    present = labs.present(SYSTEMS, arguments.program)
    chosen = [name for name in arguments.configurations.split(",") if CONFIGURATIONS[name][0] in present]
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-instances-")))
        names = arguments.instances.split(",")
        try:
            instances = [instance_of(name, arguments, place) for name in names]
        except labs.Absent as absent:
            sys.exit(f"workflows.py: {absent}")
        found = measured(arguments, instances, chosen)
        if arguments.json:
            print(json.dumps({"arguments": vars(arguments), "samples": found}, indent=1, default=str))
        else:
            print_table(arguments, instances, found)


if __name__ == "__main__":
    main()
