#!/usr/bin/env python3
"""Holds what `intarsia predict` says against what really happens, on a plain directory and on our store, on this host.

Each system is seeded by `intarsia seed`; what a task takes beside its bytes is fitted from
tasks of 1 MiB that are not scored. Then the cases of
bench/predicted.toml, none of which was used for either, are predicted and run, in turn. The interval of a prediction has 90 % of what
the rounds of the seed give, each round taken as if it were all that is known. A prediction of a noisy host is as good as
the host is alike while it is seeded and while it runs: the load stands beside the figures.

example:
  bench/predicted.py --quick                                                   two small cases, minutes
  bench/predicted.py --instance montage-chameleon-2mass-005d-001.json --repeat 5 --out results/predicted.json
"""

import concurrent.futures
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import command_line
import labs

ROOT = Path(__file__).resolve().parent.parent
SPLIT = Path(__file__).with_suffix(".toml")
MIB, MB = 1 << 20, 1_000_000
VARIANTS, COVERED = 40, 0.9
QUICK = ("pipeline-small", "reduce-small")
PIECE = os.urandom(MIB)


# What is run, as workloads of `intarsia predict`.


def chain(case, widths):
    """`width` chains of three tasks, each of which reads what the one before wrote."""
    size, seconds = case["mb"] * MB, case.get("compute_seconds", 0)
    tasks = []
    for n in range(widths):
        for stage in range(3):
            tasks.append(task(f"s{stage}-{n}", [f"{stage}-{n}"], {f"{stage + 1}-{n}": size}, seconds))
    return tasks, {f"0-{n}": size for n in range(widths)}


def pipeline(case):
    return chain(case, case["width"])


def reduce(case):
    """`width` tasks read and write a part each, and one gathers all of them."""
    part = case["mb"] * MB // case["width"]
    tasks = [task(f"map-{n}", [f"in-{n}"], {f"part-{n}": part}) for n in range(case["width"])]
    tasks.append(task("gather", [f"part-{n}" for n in range(case["width"])], {"sum": case["mb"] * MB}))
    return tasks, {f"in-{n}": part for n in range(case["width"])}


def broadcast(case):
    """One task writes a file that `width` tasks read whole."""
    size = case["mb"] * MB
    tasks = [task("make", [], {"all": size})]
    tasks += [task(f"use-{n}", ["all"], {f"out-{n}": MB}) for n in range(case["width"])]
    return tasks, {}


def scatter(case):
    """One task writes a file of which `width` tasks read a region each."""
    region = case["mb"] * MB // case["width"]
    tasks = [task("make", [], {"matrix": region * case["width"]})]
    for n in range(case["width"]):
        made = task(f"use-{n}", [], {f"out-{n}": MB})
        read = {"read": "matrix", "offset_bytes": n * region, "size_bytes": region}
        made["operations"] = [{"open": "matrix"}, read, {"close": "matrix"}, *made["operations"]]
        tasks.append(made)
    return tasks, {}


def distribute(case):
    """One task writes a file for each of `width` tasks."""
    part = case["mb"] * MB // case["width"]
    tasks = [task("make", [], {f"piece-{n}": part for n in range(case["width"])})]
    tasks += [task(f"use-{n}", [f"piece-{n}"], {f"out-{n}": part}) for n in range(case["width"])]
    return tasks, {}


def small(case):
    """`width` tasks write many files of 4 KiB, and one reads all of them."""
    each = case["mb"] * MB // 4096 // case["width"]
    names = {n: [f"f-{n}-{at}" for at in range(each)] for n in range(case["width"])}
    tasks = [task(f"make-{n}", [], dict.fromkeys(found, 4096)) for n, found in names.items()]
    tasks.append(task("read", [name for found in names.values() for name in found], {"sum": 4096}))
    return tasks, {}


PATTERNS = {f.__name__: f for f in (pipeline, reduce, broadcast, scatter, distribute, small)}


def task(name, reads, writes, seconds=0.0):
    """A task that reads files whole, computes, and writes files whole."""
    operations = []
    for file in reads:
        operations += [{"open": file}, {"read": file}, {"close": file}]
    if seconds:
        operations.append({"compute_seconds": seconds})
    for file, size in writes.items():
        operations += [{"write": file, "size_bytes": size}, {"close": file}]
    return {"name": name, "stage": name.split("-")[0], "operations": operations}


def workload(tasks, inputs, overhead_s=0.0):
    """The form that `intarsia predict` reads."""
    files = dict(inputs)
    for one in tasks:
        for operation in one["operations"]:
            if "write" in operation:
                files[operation["write"]] = operation["size_bytes"]
    return {
        "format": "intarsia-workload",
        "version": 1,
        "files": [{"name": name, "size_bytes": size} for name, size in files.items()],
        "tasks": [one | {"overhead_seconds": overhead_s} for one in tasks],
    }


# How it is run: each task in one of as many processes as there are slots.


def perform(directory, operations):
    """Do what a task does; files are read and written by 1 MiB."""
    for operation in operations:
        if "compute_seconds" in operation:
            time.sleep(operation["compute_seconds"])
        elif "read" in operation:
            file = os.open(f"{directory}/{operation['read']}", os.O_RDONLY)
            os.lseek(file, operation.get("offset_bytes", 0), os.SEEK_SET)
            left = operation.get("size_bytes", math.inf)
            while left and (got := os.read(file, min(left, MIB))):
                left -= len(got)
            os.close(file)
        elif "write" in operation:
            file = os.open(f"{directory}/{operation['write']}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            left = operation["size_bytes"]
            while left:
                left -= os.write(file, PIECE[: min(left, MIB)])
            os.close(file)


def end_at_once():
    """A worker ends with a signal, instead of clearing up what is not its own."""
    for number in labs.SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def parents_of(tasks):
    """Who waits for whom."""
    writer = {o["write"]: one["name"] for one in tasks for o in one["operations"] if "write" in o}
    return {
        one["name"]: {writer[o["read"]] for o in one["operations"] if o.get("read") in writer}
        | set(one.get("after", ()))
        for one in tasks
    }


def run(pool, directory, tasks):
    """Run all tasks, each as soon as it can; seconds from the first's start to the last's end."""
    waits, by_name = parents_of(tasks), {one["name"]: one for one in tasks}
    begun, left = time.perf_counter(), dict(waits)
    under_way, done = {}, set()
    while left or under_way:
        for name in [name for name, parents in left.items() if parents <= done]:
            del left[name]
            under_way[pool.submit(perform, directory, by_name[name]["operations"])] = name
        ended, _ = concurrent.futures.wait(under_way, return_when="FIRST_COMPLETED")
        for future in ended:
            future.result()
            done.add(under_way.pop(future))
    return time.perf_counter() - begun


def make_inputs(directory, inputs):
    """Inputs that lie on the medium and in nobody's memory."""
    for name, size in inputs.items():
        with open(directory / name, "wb") as file:
            for at in range(0, size, MIB):
                file.write(PIECE[: min(MIB, size - at)])
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# The systems.


class Directory:
    """A plain directory."""

    def __init__(self, program, work):
        self.program = program
        self.home = Path(tempfile.mkdtemp(prefix="bench-predicted-", dir=work))
        self.mount = self.home / "mount"

    def __enter__(self):
        self.mount.mkdir()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.home, ignore_errors=True)


class Store(Directory):
    """Our store on this host, its one tier in a directory beside the plain one."""

    def __enter__(self):
        called(self.program, "up", "--mount", self.mount, "--dir", self.home / "store")
        return self

    def __exit__(self, *_):
        with labs.undisturbed():
            called(self.program, "down", self.mount, "--purge", "--force")
            super().__exit__()


SYSTEMS = {"directory": Directory, "store": Store}


def called(program, *words):
    """Run intarsia; what it printed."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python/src")}
    words = [str(word) for word in (program, *words)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


# Seeding, predicting, scoring.


def seeded(system, seconds, slots, more):
    """The profile of a system."""
    words = ["seed", system.mount, "--seconds", seconds, "--slots", slots, "--quiet", *more]
    return json.loads(called(system.program, *words))


def variants(profile):
    """The profile as each of some rounds would have it, drawn by chance from a fixed seed."""
    numbers = profile["measured"]["numbers"]
    rounds = len(next(iter(numbers.values()))["by_round"])
    draw = random.Random(1)
    for _ in range(VARIANTS):
        made = json.loads(json.dumps(profile))
        number = draw.randrange(rounds)
        for one in numbers.values():
            for place in one["places"]:
                put(made, place.split("."), one["by_round"][number])
        yield made


def put(within, path, value):
    """Set what stands at a path, if something does."""
    *path, last = path
    for word in path:
        if isinstance(within, dict) and word not in within:
            return
        within = within[int(word) if word.isdecimal() else word]
    if last in within:
        within[last] = value


def predicted(program, home, profile, work):
    """Seconds that are predicted, and the interval of the prediction."""
    (home / "w.json").write_text(json.dumps(work))
    found = []
    for made in (profile, *variants(profile)):
        (home / "p.json").write_text(json.dumps(made))
        answer = called(program, "predict", home / "w.json", "--profile", home / "p.json", "--runs", 3, "--json")
        found.append(json.loads(answer)["makespan_seconds"]["mean"])
    spread = statistics.quantiles(found[1:], n=20)
    return found[0], min(spread[0], found[0]), max(spread[-1], found[0])


class Patterns:
    """Cases of tasks of our own."""

    def __init__(self, case, home):
        self.tasks, self.inputs = PATTERNS[case["pattern"]](case)

    def workload(self, overheads):
        return workload(self.tasks, self.inputs, overheads["pool"])

    def run(self, system, pool, directory):
        make_inputs(directory, self.inputs)
        return run(pool, directory, self.tasks)


class Instance:
    """An instance of WfFormat, replayed by `intarsia run`."""

    def __init__(self, case, home):
        self.case, self.path = case, Path(case["path"])
        document = json.loads(called(case["program"], "trace", self.path))
        for file in document["files"]:
            file["size_bytes"] = max(1, round(file["size_bytes"] * case["scale"])) if file["size_bytes"] else 0
        for one in document["tasks"]:
            one["slots"] = 1
            for operation in one["operations"]:
                if "compute_seconds" in operation:
                    operation["compute_seconds"] *= case["time_scale"]
                operation.pop("size_bytes", None)
                operation.pop("offset_bytes", None)
        self.document = document

    def workload(self, overheads):
        for one in self.document["tasks"]:
            one["overhead_seconds"] = overheads["engine"]
        return self.document

    def run(self, system, pool, directory):
        scales = ["--scale", self.case["scale"], "--time-scale", self.case["time_scale"]]
        return engine(system, directory, self.path, self.case["slots"], *scales)


def engine(system, directory, workflow, slots, *options):
    """Seconds that `intarsia run` says that a workflow took."""
    words = ["run", workflow, "--directory", directory, "--slots", slots, "--json", *options]
    return json.loads(called(system.program, *words))["makespan_s"]


def overheads_of(system, pool, profile, training, slots, home, with_engine):
    """What a task takes beside its bytes: in the pool, and with `intarsia run`.

    In the pool from a chain of tasks that read and write 1 MiB each: the first bytes that a task moves find everything cold, which the
    calls of a seed, one after another, do not see. Less what is predicted for these bytes. With `intarsia run` from tasks without data.
    """
    chain_of, _ = training
    small = [task(f"t-{n}", [f"f-{n}"], {f"f-{n + 1}": MIB}) for n in range(chain_of)]
    work = workload(small, {"f-0": MIB})
    apart, times = system.mount / "training", []
    for _ in range(6):
        apart.mkdir()
        make_inputs(apart, {"f-0": MIB})
        times.append(run(pool, apart, small))
        shutil.rmtree(apart)
    (home / "w.json").write_text(json.dumps(work))
    (home / "p.json").write_text(json.dumps(profile))
    foretold = json.loads(called(system.program, "predict", home / "w.json", "--profile", home / "p.json", "--runs", 3, "--json"))
    beside = statistics.median(times[1:]) - foretold["makespan_seconds"]["mean"]
    found = {"pool": max(0.0, beside) / chain_of, "engine": 0.0}
    if with_engine:
        found["engine"] = statistics.median(
            engine(system, home, replayed(home, number, training), slots) / (chain_of + math.ceil(training[1] / slots))
            for number in range(3)
        )
    return found


def replayed(home, number, training):
    """An instance of tasks without data: a chain, and then tasks side by side."""
    chain_of, side = training
    names = [f"c{n}" for n in range(chain_of)] + [f"s{n}" for n in range(side)]
    parents = {name: [names[min(at, chain_of) - 1]] if at else [] for at, name in enumerate(names)}
    tasks = [{"name": name, "id": name, "parents": parents[name], "children": [], "inputFiles": [], "outputFiles": []} for name in names]
    ran = [{"id": name, "runtimeInSeconds": 0.0, "avgCPU": 100.0} for name in names]
    document = {"name": f"training-{number}", "schemaVersion": "1.5"}
    document["workflow"] = {"specification": {"tasks": tasks, "files": []}, "execution": {"tasks": ran}}
    path = home / f"training-{number}.json"
    path.write_text(json.dumps(document))
    return path


def score(arguments, cases, split):
    """Seed, predict and run all cases on all systems; a row for each."""
    rows, loads, seeds = {}, [], {}
    with tempfile.TemporaryDirectory(prefix="bench-predicted-") as home:
        home = Path(home)
        with concurrent.futures.ProcessPoolExecutor(arguments.slots, initializer=end_at_once) as pool:
            list(pool.map(time.sleep, [0.05] * arguments.slots))
            for name in arguments.systems:
                with SYSTEMS[name](arguments.program, arguments.work) as system:
                    profile = seeded(system, split["seed"]["seconds"], arguments.slots, ["--as-loaded"] * arguments.as_loaded)
                    with_engine = any(isinstance(one, Instance) for one in cases.values())
                    (apart := home / name).mkdir()  # `intarsia run` goes on where it was: each system begins anew
                    overheads = overheads_of(system, pool, profile, split["seed"]["training"], arguments.slots, apart, with_engine)
                    seeds[name] = {"rounds": profile["measured"]["rounds"], "not_precise": profile["measured"]["not_precise"], "overheads_s": overheads}
                    for case, made in cases.items():
                        foretold = predicted(arguments.program, home, profile, made.workload(overheads))
                        rows[name, case] = {"predicted": foretold, "measured": []}
                    for number, case in labs.in_turn(cases, arguments.repeat):
                        loads.append(os.getloadavg()[0])
                        directory = system.mount / f"{case}-{number}"
                        directory.mkdir()
                        rows[name, case]["measured"].append(cases[case].run(system, pool, directory))
                        shutil.rmtree(directory)
    return rows, loads, seeds


def show(arguments, rows, loads, seeds):
    """Print the table, and how good the predictions are."""
    print(f"\n{os.cpu_count()} processors, {arguments.slots} slots, n = {arguments.repeat}, load {min(loads):.1f} to {max(loads):.1f}; seconds; work in {arguments.work}")
    for name, told in seeds.items():
        start = ", ".join(f"{what} {seconds * 1000:.1f} ms" for what, seconds in told["overheads_s"].items() if seconds)
        print(f"{name}: {told['rounds']} rounds of seeding, {len(told['not_precise'])} times not within 5 %; starting a task: {start}")
    print(f"\n{'system':10} {'case':15} {'predicted':>10} {'90 %':>17} {'measured':>10} {'min - max':>17} {'error':>7}  within")
    errors, inside, total = [], 0, 0
    for (name, case), row in rows.items():
        point, low, high = row["predicted"]
        middle = statistics.median(row["measured"])
        errors.append(abs(point / middle - 1))
        inside += sum(low <= seconds <= high for seconds in row["measured"])
        total += len(row["measured"])
        within = "yes" if low <= middle <= high else "no"
        span = f"{min(row['measured']):.3f} - {max(row['measured']):.3f}"
        print(f"{name:10} {case:15} {point:10.3f} {f'{low:.3f} - {high:.3f}':>17} {middle:10.3f} {span:>17} {point / middle - 1:+7.0%}  {within}")
    errors.sort()
    nearly_all = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
    print(f"\nerror of the median run: median {statistics.median(errors):.1%}, p90 {nearly_all:.1%}, worst {errors[-1]:.1%} (aims: 5 %, 12 %)")
    print(f"runs within their {COVERED:.0%} interval: {inside} of {total} (aim: 90 %)")
    show_order(rows)


def show_order(rows):
    """Say whether the faster system is the one that is predicted, where the runs tell them apart."""
    right = told = 0
    for case in dict.fromkeys(case for _, case in rows):
        pair = [row for (_, other), row in rows.items() if other == case]
        if len(pair) != 2:
            continue
        a, b = (sorted(row["measured"]) for row in pair)
        if a[0] <= b[-1] and b[0] <= a[-1]:
            continue
        told += 1
        right += (pair[0]["predicted"][0] < pair[1]["predicted"][0]) == (a[0] < b[0])
    print(f"the faster system foretold: {right} of {told} cases whose runs do not overlap")


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="of %(default)s")
    parser.add_argument("--cases", help="of bench/predicted.toml (all)")
    parser.add_argument("--instance", type=Path, help="an instance of WfFormat for the case that replays one")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--slots", type=int, default=min(2, os.cpu_count() or 1), help="tasks at once (%(default)s)")
    parser.add_argument("--as-loaded", action="store_true", help="seed with what other programs take meanwhile, for a host that is never quiet")
    parser.add_argument("--quick", action="store_true", help="two small cases, seeded for 8 s, twice")
    parser.add_argument("--work", default="/var/tmp", help="where all data lies (%(default)s)")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--out", type=Path, help="all figures as JSON")
    arguments = parser.parse_args()
    split = tomllib.loads(SPLIT.read_text())
    wanted = arguments.cases.split(",") if arguments.cases else None
    if arguments.quick:
        arguments.repeat, split["seed"]["seconds"], wanted = 2, 8, wanted or list(QUICK)
    labs.end_on_signals()
    arguments.systems = arguments.systems.split(",")
    if unknown := [name for name in arguments.systems if name not in SYSTEMS]:
        parser.error(f"'{unknown[0]}' is none of {', '.join(SYSTEMS)}")
    cases = {}
    for case in split["case"]:
        is_wanted = wanted is None or case["name"] in wanted
        if case["pattern"] == "instance" and is_wanted:
            if arguments.instance is None:
                print(f"{case['name']} is left out: name an instance with --instance", file=sys.stderr)
                continue
            more = {"path": arguments.instance, "slots": arguments.slots, "program": arguments.program}
            cases[case["name"]] = Instance(case | more, None)
        elif is_wanted:
            cases[case["name"]] = Patterns(case, None)
    if not cases:
        parser.error("no case is left")
    rows, loads, seeds = score(arguments, cases, split)
    show(arguments, rows, loads, seeds)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        told = [{"system": name, "case": case, **row} for (name, case), row in rows.items()]
        arguments.out.write_text(json.dumps({"seeds": seeds, "loads": loads, "rows": told, "cases": split["case"]}, indent=1))


if __name__ == "__main__":
    main()
