"""A workflow in SimGrid, in the style of WRENCH's default storage, from the profile and workload that `intarsia predict` reads.

WRENCH itself is no package of Debian and is not built; this is the model that its simulators begin with (a disk with two
rates, links, slots), on SimGrid's own disks, flows and actors. It has the rates of the seeded profile and the same
overheads, so that both sides know the same.
"""

import os
import resource
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parent / "simgrid/workflow.cpp"
HEADER = "/usr/include/simgrid/s4u.hpp"


def problem():
    """Why there is no SimGrid here, or None."""
    if not os.path.exists(HEADER):
        return "SimGrid is missing; apt-get install libsimgrid-dev"
    return None if shutil.which("g++") else "a C++ compiler is missing; apt-get install g++"


class SimGrid:
    """The built program; it goes with the object."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="bench-simgrid-")
        self.program = Path(self._folder.name) / "workflow"
        subprocess.run(["g++", "-std=c++17", "-O2", "-o", self.program, SOURCE, "-lsimgrid"], check=True)

    def makespan_s(self, profile, work, hosts, layout="local"):
        """Seconds that are simulated, and the processor time that it took; `layout` as the program reads it."""
        before = cpu_s()
        words = [self.program, "--log=root.thres:error"]
        done = subprocess.run(words, input=text_of(profile, work, hosts, layout), capture_output=True, text=True, check=True)
        return float(done.stdout), cpu_s() - before


def cpu_s():
    """Processor seconds of all programs that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def text_of(profile, work, hosts, layout):
    """What the program reads."""
    host, tier = profile["host"], profile["tiers"][0]
    rates = tier["read"]["bytes_per_second"], tier["write"]["bytes_per_second"]
    latency = profile["network"]["latency_seconds"]
    if isinstance(latency, dict):
        latency = statistics.mean(latency["samples"])
    lines = [f"hosts {hosts} {host['slots']} {rates[0]} {rates[1]} {host['in_bytes_per_second']} {latency}", f"layout {layout}"]
    sizes = {file["name"]: file["size_bytes"] for file in work["files"]}
    numbers = {name: number for number, name in enumerate(sizes)}
    lines += [f"file {size}" for size in sizes.values()]
    for task in work["tasks"]:
        words = [_word(operation, numbers, sizes) for operation in task["operations"]]
        lines.append(" ".join(["task", str(task.get("overhead_seconds", 0.0)), *filter(None, words)]))
    return "\n".join(lines) + "\n"


def _word(operation, numbers, sizes):
    if "compute_seconds" in operation:
        return f"c:{operation['compute_seconds']}"
    for kind in ("read", "write"):
        if kind in operation:
            file = operation[kind]
            size = operation.get("size_bytes", sizes[file] - operation.get("offset_bytes", 0))
            return f"{kind[0]}:{numbers[file]}:{size}"
    return None
