#!/usr/bin/env python3
"""Measures a plan of bench/predicted.toml, and says how good predictions of it are.

A plan is stores on platforms (its cells: system, hosts, rate of links, medium, slots), and cases (a pattern of tasks, its size,
where files are laid). In each cell the store is seeded by `intarsia seed`; then cases run: chains for what a task takes beside its operations,
training cases, which the error of the model in the intervals of `intarsia predict` comes from, scored ones. No case has more than one of these
roles, and what is scored is never used to seed or to calibrate. Every measurement is a line in the file of --out, so a plan goes on where it was interrupted; with
--seconds a piece of it is measured. Predictions are made from that file alone, and need no quiet machine.

example:
  bench/accuracy.py measure lab --seconds 200 --out results/accuracy.jsonl
  bench/accuracy.py score lab --out results/accuracy.jsonl --simgrid
  bench/accuracy.py score lab3 --out bench/measured/lab3.jsonl.xz            what docs/user/predict.md says
"""

import contextlib
import itertools
import os
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import accuracy_cells
import accuracy_score
import accuracy_workflows
import calm
import command_line
import kept
import labs
import predicted
import predicted_cases
import simgrid_model

#: Of chains that give what a task takes beside its operations, for each host and slot.
CHAIN_MB = 1
ROLES = ("seed", "record", "engine", "overhead", "training", "scored")


class End(Exception):
    """The time of a piece is up."""


class Log:
    """What was measured of a cell: lines of a file."""

    def __init__(self, found, cell, path):
        self.found, self.cell, self.path = found, cell, path

    def has(self, **what):
        return kept.holds(self.found, self.cell | what)

    def keep(self, **what):
        more = {"load": os.getloadavg()[0], "commit": kept.commit(), "at": round(time.time())}
        kept.keep(self.found, self.cell | what | more, self.path)


def measure(plan, arguments):
    """Measure what is not in the file yet, until all is or the time is up."""
    deadline = time.monotonic() + (arguments.seconds or 1e9)
    found = kept.remembered(arguments.out)
    there = accuracy_cells.check(plan, arguments.program)
    left = 0
    for cell in accuracy_cells.cells(plan):
        if cell["system"] not in there:
            continue
        log = Log(found, {"plan": arguments.plan, **cell}, arguments.out)
        wanted = [one for one in steps(plan, cell, arguments.rounds) if not log.has(**named(one)) and one["role"] in arguments.roles]
        if not wanted or (arguments.systems and cell["system"] not in arguments.systems.split(",")):
            continue
        if time.monotonic() > deadline - plan["seed_seconds"]:
            left += len(wanted)
            continue
        print(f"{cell}: {len(wanted)} measurements", file=sys.stderr)
        left += measure_cell(plan, cell, log, wanted, arguments.program, deadline)
    print(f"{left} measurements are left" if left else "all is measured")


def named(step):
    """What a measurement is known by in the file."""
    return {key: step[key] for key in ("role", "case", "round")}


def steps(plan, cell, rounds):
    """The measurements of a cell, in order."""
    yield {"role": "seed", "case": None, "round": 0}
    if "record_in" in plan and all(cell[axis] == value for axis, value in plan["record_in"].items()):
        recorded = {(case["pattern"], case["size"]): case for role in ("scored", "training") for case in accuracy_cells.cases(plan, role) if "kind" in case}
        for case in recorded.values():
            yield {"role": "record", "case": case["name"], "round": 0, "described": case}
    if "engine_runs" in plan:
        kind = "graph" if any("graphs" in one for one in plan["scored"]) else "instance"
        engine = {"name": "engine", "pattern": "engine", "layout": "blind", "kind": kind}
        for number in range(plan["engine_runs"]):
            yield {"role": "engine", "case": "engine", "round": number, "described": engine}
    slots = cell["slots"] or 1
    chains = {"name": "chains", "pattern": "pipeline", "width": slots * (cell["hosts"] or 1), "mb": CHAIN_MB, "layout": "own"}
    for number in range(plan["overhead_runs"]):
        yield {"role": "overhead", "case": "chains", "round": number, "described": chains}
    # Training cases come first: what follows may be another platform.
    for role, number in itertools.product(("training", "scored"), range(rounds)):
        for case in accuracy_cells.cases(plan, role):
            if number < (plan["training_runs"] if role == "training" else rounds):
                yield {"role": role, "case": case["name"], "round": number, "described": case}


def measure_cell(plan, cell, log, wanted, program, deadline):
    """Bring the store of a cell up and measure; how many measurements the time did not suffice for."""
    at, is_faster, numbers = 0, False, itertools.count()
    with (
        contextlib.suppress(End),
        accuracy_cells.running(cell, program) as system,
        predicted_cases.Crew(cell["slots"] or 1, len(system.mounts)) as crew,
        calm.Calm() as calmness,
    ):
        for at, step in enumerate(wanted):
            if time.monotonic() > deadline:
                raise End
            if step["role"] == "seed":
                profile = predicted.seeded(system, plan["seed_seconds"], cell["slots"] or 1, [])
                log.keep(**named(step), profile=profile)
                continue
            made = accuracy_cells.made_of(step["described"], cell, program, log.found)
            if step["role"] == "record":
                workload, seconds = made.record(system, "record")
                of = {key: step["described"][key] for key in ("pattern", "size")}
                log.keep(**named(step), workload=workload, seconds=seconds, of=of)
                continue
            if "faster" in plan and step["role"] == "scored" and not is_faster:
                accuracy_cells.hasten(system, plan, cell["link"])
                is_faster = True
            for number, one in enumerate(calmness.measured(lambda: run(step, made, system, crew, next(numbers)))):
                log.keep(**named(step), attempt=number, **one)
        return 0
    return len(wanted) - at


def run(step, made, system, crew, number):
    """One run of a case: its seconds, how busy the processors were, and what the engine took where that is learned."""
    before = kept.busy_s()
    # What the engine takes for a task is learned from runs that are not scored, as `intarsia refine` does.
    if step["role"] in ("engine", "training") and isinstance(made, accuracy_workflows.Instance):
        told = made.ran(system)
        return {"seconds": told["makespan_s"], "busy": kept.busy_share(before), "cost": told["engine"]}
    # A number that no run of this store has had.
    seconds = made.run(system, crew, f"{step['role']}-{step['round']}-{number}")
    return {"seconds": seconds, "busy": kept.busy_share(before)}


def main():
    """Measure or score."""
    parser = command_line.parser(__doc__)
    parser.add_argument("what", choices=("measure", "score"))
    parser.add_argument("plan", help="a plan of bench/predicted.toml")
    parser.add_argument("--out", type=Path, required=True, help="the file of all measurements, a line each")
    parser.add_argument("--seconds", type=float, help="how long a piece takes; what is under way then is ended")
    parser.add_argument("--rounds", type=int, help="runs of each scored case (as the plan says)")
    parser.add_argument("--systems", help="of the plan's (all)")
    parser.add_argument("--roles", default=",".join(ROLES), help="what is measured, of %(default)s")
    parser.add_argument("--role", default="scored", choices=("scored", "training"), help="what a table has; training cases are looked at while a model is made")
    parser.add_argument("--busiest", type=float, default=1.0, help="leave out runs during which the processors worked a larger share (%(default)s)")
    parser.add_argument("--simgrid", action="store_true", help="also score a model in SimGrid, in the style of WRENCH's default storage")
    parser.add_argument("--saving", action="store_true", help="also say what a run takes of its hosts, as a multiple of a prediction's processor time")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    arguments = parser.parse_args()
    plans = tomllib.loads(predicted.SPLIT.read_text())["plan"]
    if arguments.plan not in plans:
        parser.error(f"'{arguments.plan}' is none of {', '.join(plans)}")
    plan = plans[arguments.plan]
    arguments.rounds = arguments.rounds or plan["rounds"]
    arguments.roles = arguments.roles.split(",")
    if arguments.what == "measure" and arguments.out.suffix == ".xz":
        parser.error(f"{arguments.out} is packed and can only be scored; unpack it with unxz")
    if arguments.what == "measure":
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        labs.end_on_signals()
        measure(plan, arguments)
        return
    if arguments.simgrid and (why := simgrid_model.problem()):
        parser.error(why)
    simgrid = simgrid_model.SimGrid() if arguments.simgrid else None
    found = [one for one in kept.remembered(arguments.out) if one["plan"] == arguments.plan]
    if not found:
        parser.error(f"{arguments.out} has nothing of '{arguments.plan}': measure it first")
    with tempfile.TemporaryDirectory(prefix="bench-accuracy-") as home:
        accuracy_score.show(accuracy_score.rows(plan, found, arguments, simgrid, Path(home)), arguments)


if __name__ == "__main__":
    main()
