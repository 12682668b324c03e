#!/usr/bin/env python3
"""Holds what `intarsia predict` says against what really happens: on a plain directory and on our store on this host, or,
with --lab, on stores over the hosts of a lab.

Each system is seeded by `intarsia seed`. Training cases of bench/predicted.toml, none of which is scored, give what a task takes
beside its operations, and how far runs are from predictions: the profile keeps them as `intarsia refine` keeps runs, without
correcting anything by them. What is scored is the 90 % interval that `intarsia predict` gives with that profile. (Files of --out
without `intervals` are older: there the benchmark made intervals of its own, from training cases, and at least as wide as the
rounds of the seed.) Then the scored cases are predicted and run, in turn. Names that runs made stay until a system has ended: ext4 passes over inodes that
were removed in the last minutes when it makes new ones.

example:
  bench/predicted.py --quick                                                   two small cases, minutes
  bench/predicted.py --set fresh --repeat 5 --out results/predicted.json
  bench/predicted.py --lab 4 --link 200mbit --systems lab-store,lab-directory
"""

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import command_line
import labs
import peers
import predicted_cases
import programs
import simgrid_model

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python/src"))
from intarsia.refine.profile import refined  # noqa: E402 - it is not installed where this runs

SPLIT = Path(__file__).with_suffix(".toml")
COVERED = 0.9
QUICK = ("pipeline-small", "reduce-small")
#: Files of a run that make its names stay until all runs have ended.
MANY = 100


# The systems.


class Directory:
    """A plain directory. `mounts` says where each host has it, `seeded` what is measured, `seeding` and `predicting` what the
    commands are told."""

    seeding, predicting = (), ()

    def __init__(self, arguments):
        self.program = arguments.program
        self.home = Path(tempfile.mkdtemp(prefix="bench-predicted-", dir=arguments.work))
        self.mounts = [self.home / "mount"]
        self.seeded = self.mounts[0]

    def __enter__(self):
        # Where it can be said, directories of this one lie far apart: what a seed removes is not in the way of runs (see above).
        subprocess.run(["chattr", "+T", self.home], capture_output=True)
        self.seeded = self.home / "seeded"
        for place in (self.mounts[0], self.seeded):
            place.mkdir()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.home, ignore_errors=True)


class Store(Directory):
    """Our store on this host, its one tier in a directory beside the plain one."""

    def __enter__(self):
        called(self.program, "up", "--mount", self.mounts[0], "--dir", self.home / "store")
        return self

    def __exit__(self, *_):
        with labs.undisturbed():
            called(self.program, "down", self.mounts[0], "--purge", "--force")
            super().__exit__()


class OverHosts:
    """A store over the hosts of a lab, each of which runs one task at a time."""

    kind = labs.Native

    def __init__(self, arguments):
        self.program = arguments.program
        self.lab = self.kind(arguments.program, arguments.lab, arguments.link, "/dev/shm")

    def __enter__(self):
        self.lab.__enter__()
        self.mounts = [self.lab.mount(number) for number in self.lab.numbers()]
        self.seeded = self.mounts[0]
        self.seeding = "--remote", self.mounts[1], "--hosts", len(self.mounts)
        self.predicting = "--hosts", len(self.mounts), "--scheduler", "location"
        return self

    def __exit__(self, *failure):
        self.lab.__exit__(*failure)


def over_hosts(kind):
    """The same of another store."""
    return type(kind.__name__, (OverHosts,), {"kind": kind})


SYSTEMS = {"directory": Directory, "store": Store}
LAB_SYSTEMS = {
    "lab-store": over_hosts(labs.Intarsia),
    "lab-directory": over_hosts(labs.Native),
    "lab-glusterfs": over_hosts(peers.GlusterFs),
    "lab-moosefs": over_hosts(peers.MooseFs),
}


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
    words = ["seed", system.seeded, "--seconds", seconds, "--slots", slots, "--quiet", *system.seeding, *more]
    return json.loads(called(system.program, *words))


def held_against(profile, runs):
    """The profile with runs of training cases that were held against it, none of which corrects it.

    `runs` are seconds that were predicted and that a run took, by what names the run.
    """
    compared = [
        {
            **{"id": str(name), "ended_at": "", "host": "", "hosts": 1, "tasks": 1, "moved_bytes": 0, "placement": ""},
            "profile": {"name": profile["name"], "factors": {}},
            "comparison": {"makespan": {"predicted_s": foretold_s, "actual_s": took_s}, "work": {}},
        }
        for name, (foretold_s, took_s) in runs.items()
    ]
    return refined(profile, compared)[0] if compared else profile


def asked(system, home, profile, work, runs=None):
    """The makespan that is predicted for a workload: its mean over so many runs, and its interval."""
    runs = runs or getattr(system, "runs", None)
    (home / "w.json").write_text(json.dumps(work))
    (home / "p.json").write_text(json.dumps(profile))
    words = ["predict", home / "w.json", "--profile", home / "p.json", "--json", *system.predicting]
    return json.loads(called(system.program, *words, *(("--runs", runs) if runs else ())))["makespan_seconds"]


def makespan_s(system, home, profile, work, runs=None):
    """Seconds that are predicted for a workload."""
    return asked(system, home, profile, work, runs)["mean"]


def predicted(system, home, profile, work):
    """Seconds that are predicted, and both ends of the interval that goes with them."""
    makespan = asked(system, home, profile, work)
    return makespan["mean"], makespan["interval"]["low"], makespan["interval"]["high"]


class Patterns:
    """Cases of tasks of our own."""

    def __init__(self, case):
        self.name = case["name"]
        self.tasks, self.inputs = predicted_cases.PATTERNS[case["pattern"]](case)

    def workload(self, overheads):
        return predicted_cases.workload(self.tasks, self.inputs, overheads["crew"])

    def run(self, system, crew, number):
        """Seconds of one run, in a directory that is new."""
        directories = [mount / f"{self.name}-{number}" for mount in system.mounts]
        directories[0].mkdir()
        held = predicted_cases.make_inputs(directories, self.inputs)
        took = predicted_cases.run(crew, directories, self.tasks, self.inputs, held)
        for one in self.inputs.keys() | predicted_cases.written(self.tasks).keys():
            if len(self.inputs) + len(self.tasks) < MANY:
                (directories[0] / one).unlink()
        return took


class Instance:
    """An instance of WfFormat, replayed by `intarsia run`."""

    def __init__(self, case):
        self.case, self.path = case, Path(case["path"])
        document = json.loads(called(case["program"], "trace", self.path, *case.get("traced", ())))
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

    def run(self, system, crew, number):
        directory = system.mounts[0] / f"instance-{number}"
        directory.mkdir()
        scales = ["--scale", self.case["scale"], "--time-scale", self.case["time_scale"]]
        return engine(system, directory, self.path, self.case["slots"], *scales)


def engine(system, directory, workflow, slots, *options):
    """Seconds that `intarsia run` says that a workflow took."""
    words = ["run", workflow, "--directory", directory, "--slots", slots, "--json", *options]
    return json.loads(called(system.program, *words))["makespan_s"]


def overheads_of(system, crew, profile, seed, slots, home, with_engine):
    """What a task takes beside its operations: in the crew, and with `intarsia run`.

    In the crew from as many chains of tasks of 1 MiB as there are places for tasks, less what is predicted for them. With
    `intarsia run` from tasks without data.
    """
    long, side = seed["chain"]
    case = {"name": "overhead", "pattern": "pipeline", "width": slots * len(system.mounts), "mb": 1}
    chains = Patterns(case)
    times = [chains.run(system, crew, number) for number in range(seed["overhead_runs"])]
    foretold = makespan_s(system, home, profile, chains.workload({"crew": 0.0}))
    found = {"crew": max(0.0, statistics.median(times) - foretold) / predicted_cases.STAGES, "engine": 0.0}
    if with_engine:
        found["engine"] = statistics.median(
            engine(system, home, replayed(home, number, (long, side)), slots) / (long + math.ceil(side / slots))
            for number in range(3)
        )
    return found


def trained(system, crew, profile, overheads, training, runs, home):
    """What was predicted and what runs took of cases that are not scored, by case and run."""
    pairs = {}
    for case in training:
        made = Patterns(case)
        foretold = makespan_s(system, home, profile, made.workload(overheads))
        pairs |= {(case["name"], number): (foretold, made.run(system, crew, f"t{number}")) for number in range(runs)}
    return pairs


def replayed(home, number, training):
    """An instance of tasks without data: a chain, and then tasks side by side."""
    parents = programs.chained(*training)
    tasks = [{"name": name, "id": name, "parents": after, "children": [], "inputFiles": [], "outputFiles": []} for name, after in parents.items()]
    ran = [{"id": name, "runtimeInSeconds": 0.0, "avgCPU": 100.0} for name in parents]
    document = {"name": f"training-{number}", "schemaVersion": "1.5"}
    document["workflow"] = {"specification": {"tasks": tasks, "files": []}, "execution": {"tasks": ran}}
    path = home / f"training-{number}.json"
    path.write_text(json.dumps(document))
    return path


def score(arguments, cases, split):
    """Seed, predict and run all cases on all systems; a row for each."""
    rows, loads, seeds = {}, [], {}
    seed = split["seed"]
    with tempfile.TemporaryDirectory(prefix="bench-predicted-") as home:
        for name in arguments.systems:
            (apart := Path(home) / name).mkdir()  # `intarsia run` goes on where it was: each system begins anew
            with (
                arguments.kinds[name](arguments) as system,
                predicted_cases.Crew(arguments.slots, len(system.mounts)) as crew,
            ):
                profile = seeded(system, seed["seconds"], arguments.slots, ["--as-loaded"] * arguments.as_loaded)
                with_engine = any(isinstance(one, Instance) for one in cases.values())
                overheads = overheads_of(system, crew, profile, seed, arguments.slots, apart, with_engine)
                training = trained(system, crew, profile, overheads, arguments.training, seed["training_runs"], apart)
                profile = held_against(profile, training)
                seeds[name] = {"rounds": profile["measured"]["rounds"], "not_precise": profile["measured"]["not_precise"]}
                seeds[name] |= {"overheads_s": overheads, "profile": profile, "intervals": "intarsia predict"}
                seeds[name]["training"] = {}
                for (case, _), (foretold, took) in training.items():
                    seeds[name]["training"].setdefault(case, []).append(took / foretold)
                for case, made in cases.items():
                    foretold = predicted(system, apart, profile, made.workload(overheads))
                    rows[name, case] = {"predicted": foretold, "measured": []}
                    if arguments.simgrid:
                        rows[name, case] |= beside(arguments.simgrid, system, apart, profile, made.workload(overheads))
                for number, case in labs.in_turn(cases, arguments.repeat):
                    loads.append(os.getloadavg()[0])
                    rows[name, case]["measured"].append(cases[case].run(system, crew, number))
            save(arguments, rows, loads, seeds)
    return rows, loads, seeds


def own_cpu_s(system, home, profile, work):
    """Processor time of one prediction, the start of the program included."""
    before = simgrid_model.cpu_s()
    makespan_s(system, home, profile, work, runs=1)
    return simgrid_model.cpu_s() - before


def beside(simgrid, system, home, profile, work, layout="local"):
    """What the model in SimGrid says of a case, and the processor time of both programs, starts of these included."""
    ours_s = own_cpu_s(system, home, profile, work)
    simulated_s, took_s = simgrid.makespan_s(profile, work, len(system.mounts), layout)
    return {"simgrid": simulated_s, "cpu_s": {"intarsia": ours_s, "simgrid": took_s}}


def save(arguments, rows, loads, seeds):
    """Write what is known so far; a system that fails later takes nothing with it."""
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        told = [{"system": name, "case": case, **row} for (name, case), row in rows.items()]
        arguments.out.write_text(json.dumps({"seeds": seeds, "loads": loads, "rows": told}, indent=1))


def show(arguments, rows, loads, seeds):
    """Print the table, and how good the predictions are."""
    where = f"{arguments.lab} hosts, links {arguments.link}" if arguments.lab else f"work in {arguments.work}"
    print(f"\n{os.cpu_count()} processors, {arguments.slots} slots, n = {arguments.repeat}, load {min(loads):.1f} to {max(loads):.1f}; seconds; {where}")
    for name, told in seeds.items():
        start = ", ".join(f"{what} {seconds * 1000:.1f} ms" for what, seconds in told["overheads_s"].items() if seconds)
        print(f"{name}: {told['rounds']} rounds of seeding, {len(told['not_precise'])} times not within 5 %; beside a task's operations: {start}")
        ratios = ", ".join(f"{case} {statistics.median(one):.2f}" for case, one in told["training"].items())
        print(f"  measured / predicted in training: {ratios}; intervals are those of intarsia predict")
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
    if arguments.simgrid:
        show_simgrid(rows)


def show_simgrid(rows):
    """Say how far the model in SimGrid is off beside ours, and what both take."""
    print(f"\n{'system':10} {'case':15} {'measured':>10} {'ours':>9} {'SimGrid':>9} {'error':>7} {'error':>7}   CPU of ours and of SimGrid (ms)")
    errors = {"ours": [], "SimGrid": []}
    for (name, case), row in rows.items():
        middle, ours, other = statistics.median(row["measured"]), row["predicted"][0], row["simgrid"]
        off = ours / middle - 1, other / middle - 1
        for model, one in zip(errors, off):
            errors[model].append(abs(one))
        cpu = " ".join(f"{1000 * seconds:8.1f}" for seconds in row["cpu_s"].values())
        print(f"{name:10} {case:15} {middle:10.3f} {ours:9.3f} {other:9.3f} {off[0]:+7.0%} {off[1]:+7.0%}   {cpu}")
    for model, found in errors.items():
        print(f"{model}: error of the median run: median {statistics.median(found):.1%}, worst {max(found):.1%}, n = {len(found)}")


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
    parser.add_argument("--systems", help=f"of {', '.join(SYSTEMS)}; with --lab of {', '.join(LAB_SYSTEMS)} (all that are there)")
    parser.add_argument("--cases", help="of bench/predicted.toml (all of the set)")
    parser.add_argument("--set", choices=("seen", "second", "fresh", "all"), default="all", help="which cases of bench/predicted.toml")
    parser.add_argument("--instance", type=Path, help="an instance of WfFormat for the case that replays one")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, help="for seeding each system (as bench/predicted.toml says)")
    parser.add_argument("--slots", type=int, help="tasks at once on a host (2, in a lab 1)")
    parser.add_argument("--lab", type=int, metavar="HOSTS", help="stores over the hosts of a lab; needs root")
    parser.add_argument("--link", default="200mbit", help="rate of the lab's links (%(default)s)")
    parser.add_argument("--as-loaded", action="store_true", help="seed with what other programs take meanwhile, for a host that is never quiet")
    parser.add_argument("--simgrid", action="store_true", help="also simulate each case in SimGrid, in the style of WRENCH's default storage")
    parser.add_argument("--quick", action="store_true", help="two small cases, seeded for 8 s, twice")
    parser.add_argument("--work", default="/var/tmp", help="where all data lies without --lab (%(default)s)")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--out", type=Path, help="all figures as JSON")
    arguments = parser.parse_args()
    split = tomllib.loads(SPLIT.read_text())
    wanted = arguments.cases.split(",") if arguments.cases else None
    if arguments.quick:
        arguments.repeat, split["seed"]["seconds"], wanted = 2, 8, wanted or list(QUICK)
    split["seed"]["seconds"] = arguments.seconds or split["seed"]["seconds"]
    if arguments.simgrid and (why := simgrid_model.problem()):
        parser.error(why)
    arguments.simgrid = simgrid_model.SimGrid() if arguments.simgrid else None
    labs.end_on_signals()
    arguments.slots = arguments.slots or (1 if arguments.lab else min(2, os.cpu_count() or 1))
    arguments.kinds, arguments.training = SYSTEMS, split["training"]
    if arguments.lab:
        there = labs.present({name: kind.kind for name, kind in LAB_SYSTEMS.items()}, arguments.program)
        arguments.kinds = {name: LAB_SYSTEMS[name] for name in there}
    arguments.systems = arguments.systems.split(",") if arguments.systems else list(arguments.kinds)
    if unknown := [name for name in arguments.systems if name not in arguments.kinds]:
        parser.error(f"'{unknown[0]}' is none of {', '.join(arguments.kinds)}")
    cases = chosen(arguments, split["case"], wanted)
    if not cases:
        parser.error("no case is left")
    rows, loads, seeds = score(arguments, cases, split)
    show(arguments, rows, loads, seeds)


def chosen(arguments, described, wanted):
    """The cases that are to be scored, by name."""
    cases = {}
    for case in described:
        if (wanted is not None and case["name"] not in wanted) or arguments.set not in ("all", case["set"]):
            continue
        if case["pattern"] != "instance":
            cases[case["name"]] = Patterns(case)
        elif arguments.instance is None:
            print(f"{case['name']} is left out: name an instance with --instance", file=sys.stderr)
        elif not arguments.lab:
            more = {"path": arguments.instance, "slots": arguments.slots, "program": arguments.program}
            cases[case["name"]] = Instance(case | more)
    return cases


if __name__ == "__main__":
    main()
