"""How good predictions are of what bench/accuracy.py has measured."""

import math
import statistics
import tempfile
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import accuracy_cells
import accuracy_choice
import accuracy_workflows
import predicted

from intarsia.refine.engine import with_engine  # accuracy_workflows says where it is


def rows(plan, found, arguments, simgrid, home):
    """A row for each case of a cell that was measured: predicted with its interval, and all runs."""
    described = {case["name"]: case for role in ("training", "scored") for case in accuracy_cells.cases(plan, role)}
    by_cell = {}
    for one in found:
        by_cell.setdefault(tuple(one[axis] for axis in accuracy_choice.CELL), []).append(one)
    seeded = {cell: Cell(cell, lines, arguments, home, found) for cell, lines in by_cell.items()}
    seeded = {cell: one for cell, one in seeded.items() if one.is_whole()}
    # One after the other where processor time is taken: it is that of all programs together.
    with ThreadPoolExecutor(1 if simgrid or arguments.saving else 2) as pool:
        point = lambda job: job[0].foretold(described[job[1]])  # noqa: E731 - it has no name of its own
        jobs = [(cell, case, runs) for cell in seeded.values() for case, runs in cell.runs("training").items()]
        # Of each system what was predicted and what runs took, by cell, case and run.
        pairs = {}
        for (cell, case, runs), foretold in zip(jobs, pool.map(point, jobs)):
            of_system = pairs.setdefault(cell.key[0], {})
            of_system |= {(cell.key, case, number): (foretold, took) for number, took in enumerate(runs)}
        for system, runs in pairs.items():
            ratios = sorted(took / foretold for foretold, took in runs.values())
            print(f"{system}: {len(ratios)} runs of training cases, measured / predicted {ratios[0]:.2f} to {ratios[-1]:.2f}, "
                  f"median {statistics.median(ratios):.2f}; intervals are those of intarsia predict with these runs")
        for cell in seeded.values():
            cell.profile = predicted.held_against(cell.profile, pairs.get(cell.key[0], {}))
        if "faster" in plan:
            for cell in seeded.values():
                cell.profile = accuracy_cells.hastened(cell.profile, plan)
        jobs = [(cell, case, runs) for cell in seeded.values() for case, runs in cell.runs(arguments.role).items()]
        told = lambda job: job[0].row(described[job[1]], job[2], simgrid)  # noqa: E731
        return list(pool.map(told, jobs))


class Cell:
    """A store on a platform, as its seed has it."""

    def __init__(self, key, lines, arguments, home, found):
        self.key, self.lines, self.home, self.busiest, self.found = key, lines, home, arguments.busiest, found
        self.saving = arguments.saving
        self.cell = dict(zip(accuracy_choice.CELL, key))
        self.system = types.SimpleNamespace(program=arguments.program, predicting=accuracy_cells.predicting(self.cell))
        self.mounts = [None] * (self.cell["hosts"] or 1)
        self.profile = next((one["profile"] for one in lines if one["role"] == "seed"), None)
        self.costs = [one["cost"] for one in self.counted() if one.get("cost")]
        self.overheads = {"crew": self.overhead_s()} if self.is_whole() else None

    def is_whole(self):
        """Whether it was seeded, and what a task takes is known."""
        return self.profile is not None and bool(self.runs("overhead"))

    def counted(self):
        """The measurements, but of those that others disturbed: they count where no calm one of the same step is."""
        calm = {step(one) for one in self.lines if not one.get("disturbed")}
        last = {step(one): one for one in self.lines}
        return [one for one in self.lines if not one.get("disturbed") or (step(one) not in calm and one is last[step(one)])]

    def runs(self, role):
        """Seconds of the runs of each case."""
        times = {}
        for one in self.counted():
            if one["role"] == role and one["busy"] <= self.busiest:
                times.setdefault(one["case"], []).append(one["seconds"])
        return times

    def overhead_s(self):
        """What a task takes beside its operations."""
        case = {"name": "chains", "pattern": "pipeline", "width": (self.cell["slots"] or 1) * len(self.mounts), "mb": 1, "layout": "own"}
        times = self.runs("overhead")["chains"]
        foretold = self.seconds(accuracy_cells.Placed(case, self.cell), {"crew": 0.0})
        return max(0.0, statistics.median(times) - foretold) / predicted.predicted_cases.STAGES

    def made(self, case):
        return accuracy_cells.made_of(case, self.cell, self.system.program, self.found)

    def seconds(self, made, overheads):
        with tempfile.TemporaryDirectory(dir=self.home) as apart:
            return predicted.makespan_s(self.laid(made), Path(apart), self.profile_of(made), made.workload(overheads))

    def profile_of(self, made):
        """The profile; for what the engine runs, with what it takes for a task."""
        is_run = isinstance(made, accuracy_workflows.Instance)
        profile = with_engine(self.profile, self.costs)[0] if is_run else self.profile
        # By their names a store chooses the host of a group of files; a lab has these. Older seeds do not tell them.
        names = {"host_names": [f"n{number + 1}" for number in range(self.cell["hosts"] or 0)]}
        return profile | (names if self.cell["system"] in accuracy_cells.SAYS_WHERE else {})

    def laid(self, made):
        """The store with the flags of a layout."""
        given = self.system.predicting
        if "--scheduler" in made.layout.flags:
            given = given[: given.index("--scheduler")]
        flags = (*given, *made.layout.flags)
        runs = accuracy_cells.ANYWHERE_RUNS if "workqueue" in flags else None
        return types.SimpleNamespace(program=self.system.program, predicting=flags, mounts=self.mounts, runs=runs)

    def simgrid_layout(self, made):
        """Where files go in SimGrid: as ours is told, or as the store was found to do."""
        own = {"local": "local", "spread": "spread 1", "central": "central"}[self.profile.get("placement", "local")]
        return made.layout.simgrid if made.layout.flags else own

    def foretold(self, case):
        """Seconds that are predicted for a case."""
        return self.seconds(self.made(case), self.overheads)

    def row(self, case, runs, simgrid):
        made = self.made(case)
        work = made.workload(self.overheads)
        with tempfile.TemporaryDirectory(dir=self.home) as apart:
            interval = predicted.predicted(self.laid(made), Path(apart), self.profile_of(made), work)
            row = {**self.cell, **{key: case[key] for key in ("pattern", "layout", "name")}, "measured": runs, "predicted": interval}
            row["disturbed"] = all(one.get("disturbed") for one in self.counted() if one["role"] == "scored" and one["case"] == case["name"])
            row["size"] = case["name"].rsplit("-", 2)[1]
            row["naive"] = accuracy_choice.naive_s(work, self.cell, self.profile)
            if getattr(made, "has_samples", False):
                row["sampled"] = self.seconds(made.sampled(), self.overheads)
            if self.saving and not simgrid:
                row["cpu_s"] = {"intarsia": predicted.own_cpu_s(self.laid(made), Path(apart), self.profile_of(made), work)}
            if simgrid:
                row |= predicted.beside(simgrid, self.laid(made), Path(apart), self.profile, work, self.simgrid_layout(made))
        return row


def step(one):
    """What a measurement is of: it may have been made again."""
    return one["role"], one["case"], one["round"]


def off(row, key="predicted"):
    """By how much a prediction is off what runs took."""
    point = row[key][0] if key == "predicted" else row[key]
    return point / accuracy_choice.middle(row) - 1


def show(found, arguments):
    """Print how good predictions are: in all, by each property of a case, and as recommendations."""
    if arguments.rows:
        for row in found:
            point, low, high = row["predicted"]
            runs = " ".join(f"{seconds:.3f}" for seconds in row["measured"])
            cell = " ".join(str(row[axis]) for axis in accuracy_choice.CELL if row[axis])
            print(f"{cell:28} {row['name']:26} {point:8.3f} ({low:.3f} - {high:.3f})  {runs}  {off(row):+.0%}")
    counts = sorted(len(row["measured"]) for row in found)
    print(f"\n{len(found)} rows, {counts[0]} to {counts[-1]} runs each")
    if disturbed := sum(row["disturbed"] for row in found):
        print(f"of {disturbed} of them others disturbed every run")
    print(f"{'':24} rows  median error     p90   worst  median signed  in 90 % interval")
    line("all", found)
    for axis in (*accuracy_choice.CELL, "pattern", "size", "layout"):
        by(found, axis)
    if len({row["medium"] for row in found}) > 1:
        by(found, "system", "medium")
    if sampled := [row for row in found if "sampled" in row]:
        line("a fifth recorded", sampled, "sampled")
    line("bytes / bandwidth", found, "naive")
    if arguments.simgrid:
        line("SimGrid: all", found, "simgrid")
        for layout in sorted({row["layout"] for row in found}):
            line(f"SimGrid: layout {layout}", [row for row in found if row["layout"] == layout], "simgrid")
        ours, theirs = (1000 * statistics.median(row["cpu_s"][who] for row in found) for who in ("intarsia", "simgrid"))
        nearer = sum(abs(off(row)) < abs(off(row, "simgrid")) for row in found)
        print(f"nearer to the runs: ours {nearer} of {len(found)}; processor time of a prediction with its start, median: {ours:.0f} ms and {theirs:.0f} ms")
    if arguments.saving:
        savings(found)
    accuracy_choice.show(found)


def by(found, *axes):
    """A line of the table for each value of an axis, or of several together."""
    of = {}
    for row in found:
        of.setdefault(tuple(row[axis] for axis in axes), []).append(row)
    if len(of) > 1:
        for values, some in of.items():
            line(" ".join(f"{axis} {value}" for axis, value in zip(axes, values)), some)


def line(name, some, key="predicted"):
    """A line of the table."""
    errors = sorted(abs(off(row, key)) for row in some)
    nearly_all = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
    signed = statistics.median(off(row, key) for row in some)
    inside = [low <= seconds <= high for row in some for _, low, high in [row["predicted"]] for seconds in row["measured"]]
    covered = f"{sum(inside)} of {len(inside)}, {sum(inside) / len(inside):.1%}" if key == "predicted" else ""
    print(f"{name:24} {len(some):4} {statistics.median(errors):13.1%} {nearly_all:7.1%} {errors[-1]:7.1%} {signed:+14.1%}  {covered}")


def savings(found):
    """Say how many times what a prediction takes a run takes of its hosts, as the thesis counts it: hosts × seconds."""
    for pattern in dict.fromkeys(row["pattern"] for row in found):
        some = [row for row in found if row["pattern"] == pattern]
        times = sorted((row["hosts"] or 1) * accuracy_choice.middle(row) / row["cpu_s"]["intarsia"] for row in some)
        took_ms = 1000 * statistics.median(row["cpu_s"]["intarsia"] for row in some)
        print(f"running instead of predicting {pattern}: {times[0]:.0f} to {times[-1]:.0f} times the time, median {statistics.median(times):.0f}; a prediction takes {took_ms:.0f} ms")
