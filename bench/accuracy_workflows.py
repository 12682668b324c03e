"""Real programs and recorded workflows as cases of bench/accuracy.py, beside the patterns of bench/predicted_cases.py.

Programs (Montage, BLAST) run on one host as they are; what they do is recorded once by the store itself, on a cell of its own, and
that one workload is predicted for all others. Over the hosts of a lab `intarsia run` replays instances of WfFormat, and runs graphs of
the same programs, each of which it has recorded once on one host, without the links.
"""

import copy
import functools
import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import types
from pathlib import Path

import labs
import predicted
import programs
import touched
import workflows

sys.path.insert(0, str(labs.ROOT / "python/src"))
from intarsia.demo.blast import Blast  # noqa: E402 - it is not installed where this runs
from intarsia.demo.montage import Montage  # noqa: E402
from intarsia.demo.workflow import Command, run_stages  # noqa: E402

PROGRAMS = {"montage": Montage, "blast": Blast}
#: A chain of tasks without data, and tasks side by side: what `intarsia run` takes for one.
CHAIN, SIDE = 8, 8
#: How `intarsia run` deals tasks, and what a prediction is told.
SCHEDULES = {
    "beside": ("--schedule local --patience 0 --hints none", "location"),
    "local": ("--schedule local --hints none", "local"),
    "blind": ("--schedule workqueue --hints none", "workqueue"),
}


class Program:
    """A workflow of programs; a process for each task."""

    layout = types.SimpleNamespace(flags=(), simgrid="local")

    def __init__(self, case, cell, recorded=None):
        self.name, self.cell, self.recorded = case["name"], cell, recorded
        self.workflow = PROGRAMS[case["pattern"]](size=case["size"])

    def workload(self, _overheads):
        """What was recorded; tasks of other stages begin when all of the one before have ended, as far as files tell."""
        return self.recorded

    def run(self, system, _crew, number):
        """Seconds of one run in a new directory."""
        directory = system.mounts[0] / f"{self.name}-{number}"
        directory.mkdir()
        with tempfile.TemporaryDirectory(prefix="bench-inputs-", dir="/dev/shm") as inputs:
            self.workflow.prepare(Path(inputs))
            stages = [
                type(stage)(stage.name, [task if isinstance(task, Command) else apart(task) for task in stage.tasks])
                for stage in self.workflow.stages(Path(inputs))
            ]
            touched.MEMORY.touch()
            begun = time.perf_counter()
            run_stages(stages, [directory], self.cell["slots"], lambda _: None)
            return time.perf_counter() - begun

    def record(self, system, number):
        """Run it once while the store records; the workload, and the seconds that it took."""
        predicted.called(system.program, "record", "start", system.mounts[0])
        seconds = self.run(system, None, number)
        log = predicted.called(system.program, "record", "stop", system.mounts[0]).strip()
        return json.loads(predicted.called(system.program, "trace", log)), seconds


def apart(task):
    """A task as a process of its own, as programs are."""

    def done(directory):
        process = multiprocessing.get_context("fork").Process(target=ended, args=(task, directory))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"a task ended with {process.exitcode} in {directory}")

    return done


def ended(task, directory):
    """Do a task, and end its process at once: the threads that dealt it are not this process's to wait for."""
    try:
        task(directory)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


class Instance:
    """A recorded workflow, replayed over the hosts of a lab."""

    #: Whether it is also predicted from a part of its tasks.
    has_samples = True

    def __init__(self, case, cell, program):
        self.name, self.cell = case["name"], cell
        self.options, scheduler = SCHEDULES[case["layout"]]
        self.layout = types.SimpleNamespace(flags=("--scheduler", scheduler), simgrid="local")
        self.place = tempfile.TemporaryDirectory(prefix="bench-instance-")
        document = workflows.document_of(case["pattern"]) if case["pattern"] != "engine" else None
        if document is None:
            path = predicted.replayed(Path(self.place.name), 0, (CHAIN, SIDE))
            self.replay = workflows.Replay("engine", path, CHAIN + SIDE)
            return
        scaled = types.SimpleNamespace(hosts=4, mb=case["mb"], compute_s=case["compute_s"])
        self.replay = workflows.Instance(case["pattern"], document, scaled, Path(self.place.name))
        # Factors are of four hosts, so that a case is the same one on any number.
        self.described = {"path": self.replay.file, "program": program, "scale": self.replay.scale, "time_scale": self.replay.time_scale}
        self.document = predicted.Instance(self.described)

    def sampled(self):
        """The same, of which a fifth of the tasks of each stage were recorded."""
        other = copy.copy(self)
        other.document = predicted.Instance(self.described | {"traced": ("--sample", "20%")})
        return other

    def workload(self, _overheads):
        # What the engine takes is in the profile.
        return self.document.workload({"engine": 0.0})

    def run(self, system, _crew, _number):
        """Seconds from the first task's readiness to the last one's end."""
        return self.ran(system)["makespan_s"]

    def ran(self, system, hosts=None):
        """What a run tells of itself; on these hosts, or on all."""
        if not hasattr(system, "runner"):
            system.runner = workflows.Runner(system.lab, "intarsia")
        return system.runner.run(self.replay, self.options, hosts)


class Graph(Instance):
    """A workflow of programs, run over the hosts of a lab."""

    has_samples = False

    def __init__(self, case, cell, recorded=None):
        self.name, self.cell, self.recorded = case["name"], cell, recorded
        self.options, scheduler = SCHEDULES[case["layout"]]
        self.layout = types.SimpleNamespace(flags=("--scheduler", scheduler), simgrid="local")
        self.case = case

    @property
    def replay(self):
        """The programs with their inputs, made once."""
        return idle() if self.case["pattern"] == "engine" else programs_of(self.case["pattern"], self.case["size"])

    def workload(self, _overheads):
        """What the run on one host has told: what a task reads and writes, and for how long it uses a processor."""
        return self.recorded

    def record(self, system, _number):
        """Run it on the first host alone; the workload, and the seconds that it took."""
        told = self.ran(system, ["n1"])
        record = system.lab.dir / "record.json"
        return json.loads(predicted.called(system.program, "trace", record)), told["makespan_s"]


@functools.cache
def place_of_programs():
    """Where inputs of programs lie; gone when the benchmark ends."""
    return tempfile.TemporaryDirectory(prefix="bench-programs-")


@functools.cache
def programs_of(name, size):
    """A real workflow, its inputs made."""
    place = Path(place_of_programs().name) / f"{name}-{size}"
    place.mkdir()
    return workflows.Program(name, place, size)


@functools.cache
def idle():
    """Programs that do nothing."""
    return workflows.Replay("engine", programs.idle(Path(place_of_programs().name), CHAIN, SIDE), CHAIN + SIDE)
