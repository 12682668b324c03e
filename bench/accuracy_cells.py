"""The cells of a plan of bench/accuracy.py: one store on one platform each, and the ways in which files are laid there."""

import contextlib
import itertools
import os
import random
import tempfile
import types
from pathlib import Path

import accuracy_workflows
import labs
import peers
import predicted
import throttled
import touched

#: What a slow disk does (bench/throttled.py); a file system on it has so much room.
SLOW = {"delay_ms": 1, "rate_mb": 100, "room_mib": 8192}
#: Stores of others do not say where a file lies, so nothing is run where it does.
SAYS_WHERE = ("lab-store",)
#: Runs that a prediction is the mean of, where tasks run anywhere.
ANYWHERE_RUNS = 12
SYSTEMS = predicted.SYSTEMS | predicted.LAB_SYSTEMS | {"lab-central": predicted.over_hosts(peers.Central)}

GROUP = "together"
START_BYTES = 65_536


class Layout:
    """Where new files go: what a store is told by attributes, what a prediction is told by flags and hints."""

    def __init__(self, attributes=None, flags=(), hinted=None, simgrid="local", of_all=None):
        self.attributes, self.flags, self.hinted = attributes or {}, flags, hinted or (lambda _tasks: {})
        self.of_all = of_all or {}
        self.simgrid = simgrid

    def tell(self, directory, tasks):
        """Tell a store, of the directory of a run and of the files that have hints of their own."""
        for key, value in self.attributes.items():
            os.setxattr(directory, f"user.intarsia.{key}", value.encode())
        for file, hints in self.hinted(tasks).items():
            (directory / file).touch()
            for key, value in hints.items():
                os.setxattr(directory / file, f"user.intarsia.{key}", value.encode())

    def workload(self, document):
        """The workload with the hints of its files."""
        own = self.hinted(document["tasks"])
        files = [file | {"hints": self.of_all | own.get(file["name"], {})} for file in document["files"]]
        return document | {"files": files}


HINTED = ("--placement", "local")
SPREAD = {"pattern": "broadcast"}


def striped(hosts, chunk_kib):
    """Files dealt over so many hosts by chunks."""
    attributes = {"place": f"stripe:{hosts}", "chunk": f"{chunk_kib}KiB"}
    flags = "--placement", "round-robin", "--stripe-width", hosts, "--chunk", f"{chunk_kib}KiB"
    return Layout(attributes, flags, simgrid=f"spread {hosts}")


def reduced(tasks):
    """Hints of what one task reads of several others: all of that on one host."""
    writers = {o["write"]: one["name"] for one in tasks for o in one["operations"] if "write" in o}
    hints = {}
    for one in tasks:
        read = {o["read"] for o in one["operations"] if o.get("read") in writers}
        if len({writers[file] for file in read}) > 1:
            hints |= dict.fromkeys(read, {"place": f"collocate:{GROUP}"})
    return hints


def layouts(hosts):
    """All layouts by name; `own` is what a store does by itself."""
    return {
        "own": Layout(),
        "local": Layout(flags=HINTED),
        # By chunks that are short beside files, so that each host has as much of a file as the others.
        "wide": striped(hosts, 64),
        "narrow": striped(2, 128),
        "central": Layout({"place": f"collocate:{GROUP}@n1"}, ("--placement", "central"), simgrid="central"),
        "collocate": Layout(flags=HINTED, hinted=reduced),
        # Readers take files from each other.
        "spread": Layout(SPREAD, HINTED, of_all=SPREAD),
    }


def cells(plan):
    """The cells of a plan, each as what names it."""
    axes = {name: plan.get(name, [None]) for name in ("system", "hosts", "link", "medium", "slots")}
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def cases(plan, role):
    """The cases of a plan that have a role: pattern, size and layout, without those in which a layout changes nothing."""
    found = []
    for described in plan.get(role, []):
        if {"instances", "programs", "graphs"} & described.keys():
            found += whole(described)
            continue
        axes = [described["pattern"], described["mb"], described.get("layout", ["own"])]
        for pattern, mb, layout in itertools.product(*axes):
            case = {"pattern": pattern, "mb": mb, "layout": layout, "width": described["width"]}
            case["compute_seconds"] = described.get("compute_seconds", 0) if pattern == "pipeline" else 0
            if pattern == "pipeline" and case["width"]:
                case["mb"] = mb / case["width"]
            made = predicted.Patterns(case | {"name": "x", "width": case["width"] or 4})
            if layout != "collocate" or reduced(made.tasks):
                found.append(case | {"name": f"{pattern}-{mb:g}-{layout}"})
    return found


def whole(described):
    """Cases that are whole workflows: instances in each schedule, programs of each size, graphs of programs in both."""
    for name, layout in itertools.product(described.get("instances", []), described.get("schedules", [])):
        case = {"pattern": name, "mb": described["mb"], "compute_s": described["compute_s"], "layout": layout}
        yield case | {"name": f"{name}-{described['mb']}-{layout}", "kind": "instance"}
    for name, size in itertools.product(described.get("programs", []), described.get("sizes", [])):
        yield {"pattern": name, "size": size, "layout": "own", "name": f"{name}-{size}-own", "kind": "program"}
    axes = [described.get(key, []) for key in ("graphs", "sizes", "schedules")]
    for name, size, layout in itertools.product(*axes):
        yield {"pattern": name, "size": size, "layout": layout, "name": f"{name}-{size}-{layout}", "kind": "graph"}


def made_of(case, cell, program, found):
    """A case as it is run and predicted in a cell; `found` has what was recorded."""
    if case.get("kind") == "instance":
        return accuracy_workflows.Instance(case, cell, program)
    if case.get("kind") in ("program", "graph"):
        # A graph is the same one in each schedule.
        same = ("pattern", "size")
        recorded = (one["workload"] for one in found if one["role"] == "record" and all(one["of"][key] == case.get(key) for key in same))
        kind = accuracy_workflows.Program if case["kind"] == "program" else accuracy_workflows.Graph
        return kind(case, cell, next(recorded, None))
    return Placed(case, cell)


@contextlib.contextmanager
def medium(name):
    """A directory on a medium: memory, the disk, or a slow disk that is made for it."""
    if name:
        touched.MEMORY.touch()
    if name != "slow":
        yield {"memory": "/dev/shm", "disk": "/var/tmp", None: "/dev/shm"}[name]
        return
    throttled.require()
    with tempfile.TemporaryDirectory(prefix="bench-slow-", dir="/dev/shm") as home:
        mount = Path(home) / "mount"
        mount.mkdir()
        # The image lies in memory: what is slow is told by the filters alone.
        with throttled.throttled_ext4(Path(home), mount, SLOW["delay_ms"], SLOW["rate_mb"], SLOW["room_mib"]):
            yield str(mount)


@contextlib.contextmanager
def running(cell, program):
    """The store of a cell, up."""
    with medium(cell["medium"]) as work:
        given = types.SimpleNamespace(program=program, work=work, lab=cell["hosts"], link=cell["link"])
        with SYSTEMS[cell["system"]](given) as system:
            yield system


def hasten(system, plan, link):
    """Give the first host a faster link, which was not seeded."""
    rate = f"{round(float(link[:-4]) * plan['faster'])}{link[-4:]}"
    system.lab.intarsia("lab", "link", "n1", "--rate", rate, "--lab", system.lab.lab)


def hastened(profile, plan):
    """The profile with the first host's link as it is then."""
    host = {"numbers": [0]} | {f"{way}_bytes_per_second": profile["host"][f"{way}_bytes_per_second"] * plan["faster"] for way in ("in", "out")}
    return profile | {"unlike_hosts": [host]}


def predicting(cell):
    """The flags of all predictions of a cell."""
    if not cell["hosts"]:
        return ()
    scheduler = "location" if cell["system"] in SAYS_WHERE else "workqueue"
    return "--hosts", cell["hosts"], "--scheduler", scheduler


class Placed(predicted.Patterns):
    """A case that is run and predicted in a layout."""

    def __init__(self, case, cell):
        # A case without a width has as many tasks side by side as there are hosts, and its size is that of each.
        super().__init__(case | {"width": case["width"] or cell["hosts"]})
        if cell["system"] in SAYS_WHERE:
            anchor(self.tasks, self.inputs)
        self.layout, self.cell = layouts(cell["hosts"] or 1)[case["layout"]], cell

    def workload(self, overheads):
        return self.layout.workload(super().workload(overheads))

    def run(self, system, crew, number):
        if self.cell["medium"] and touched.MEMORY.touch():
            # What runs first then is slow.
            self.run_once(system, crew, f"{number}-first")
        return self.run_once(system, crew, number)

    def run_once(self, system, crew, number):
        directories = [mount / f"{self.name}-{number}" for mount in system.mounts]
        directories[0].mkdir()
        self.layout.tell(directories[0], self.tasks)
        held = predicted.predicted_cases.make_inputs(directories, self.inputs)
        asks, draw = None, None
        if self.cell["system"] in SAYS_WHERE:
            asks = lambda file: located(directories[0] / file)  # noqa: E731 - it has no name of its own
            held = {file: asks(file) for file in self.inputs}
        elif self.cell["hosts"]:
            # Tasks run anywhere, each time elsewhere: predictions are the mean over such runs.
            held, asks, draw = {}, lambda _file: (), random.Random(f"{self.name} {number}")
        if self.cell["medium"] == "slow":
            os.sync()  # what other runs wrote is not written meanwhile
        return predicted.predicted_cases.run(crew, directories, self.tasks, self.inputs, held, asks, draw)


def anchor(tasks, inputs):
    """Have tasks without input read a small file each, which says where they run; else chance would."""
    for number, one in enumerate(task for task in tasks if not any("read" in o for o in task["operations"])):
        file = f"start-{number}"
        inputs[file] = START_BYTES
        one["operations"] = [{"open": file}, {"read": file}, {"close": file}, *one["operations"]]


def located(path):
    """The numbers of the hosts that hold a file, from 0."""
    said = os.getxattr(path, "user.intarsia.location").decode()
    return tuple(int(name.strip()[1:]) - 1 for name in said.split(",") if name.strip()[1:].isdigit())


def check(plan, program):
    """The systems of a plan that can be measured here."""
    there = [name for name in plan["system"] if not name.startswith("lab-")]
    kinds = {name: SYSTEMS[name].kind for name in plan["system"] if name.startswith("lab-")}
    return [*there, *labs.present(kinds, program)]
