"""Real workflows over all hosts of a lab: a mosaic, a program that is compiled, a file that goes from host to host.

Each task runs in the directory of the run as its host has it mounted; tasks are dealt to the hosts in turn.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from labs import ROOT, Absent, require

HAND_OVERS = 540
HANDED_BYTES = 64 << 10
# Who built Intarsia has the source of this library, a program of some thirty files in C.
LIBRARY = "libmimalloc-sys"
PROGRAM_C = """
#include <mimalloc.h>
int main(void) { char *p = mi_malloc(4096); p[4095] = 42; return p[4095] == 42 ? mi_free(p), 0 : 1; }
"""


class Inputs:
    """What the workflows start from, made once and outside every file system that is measured."""

    def __init__(self):
        require({"gcc": "gcc", "ar": "binutils", "mProjectPP": "montage"}, ("numpy", "astropy"))
        sys.path.insert(0, str(ROOT / "python/src"))
        from intarsia.demo.montage import Montage

        self.libraries = find_source()
        self.montage = Montage()
        self.place = tempfile.TemporaryDirectory(prefix="bench-inputs-")
        self.tiles = Path(self.place.name)
        self.montage.prepare(self.tiles)


def find_source():
    """The trees of source that are compiled: two versions of one library."""
    # What only other systems need was never fetched.
    said = subprocess.run(["rustc", "-vV"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    here = next(line.split()[1] for line in said.splitlines() if line.startswith("host: "))
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", here]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Absent(f"the source of {LIBRARY} is not there: {done.stderr.strip()[-300:]}")
    found = [one["manifest_path"] for one in json.loads(done.stdout)["packages"] if one["name"] == LIBRARY]
    trees = sorted(Path(found[0]).parent.glob("c_src/mimalloc/*/src/static.c")) if found else []
    if trees:
        return [tree.parent.parent for tree in trees]
    raise Absent(f"the source of {LIBRARY} is not there; build Intarsia first")


def measure(system, number, inputs):
    """Seconds that each workflow takes, and each long stage of it, with the processor time of the servers."""
    rows = {}
    for run in (montage, compile_program, hand_overs):
        cpu = system.cpu_s()
        stages = run(system, number, inputs)
        cpu_ms = (system.cpu_s() - cpu) * 1000
        whole = next(iter(stages))
        rows |= {name: {"per_s": seconds} for name, seconds in stages.items()}
        rows[whole]["cpu_ms"] = cpu_ms
    return rows


def directories(system, name):
    """A new directory of the first host, as each host sees it."""
    seen = [system.mount(n) / name for n in system.numbers()]
    seen[0].mkdir()
    return seen


def montage(system, number, inputs):
    """The mosaic of sixteen tiles, one task a host at a time."""
    from intarsia.demo.workflow import run_stages

    seen = directories(system, f"montage{number}")
    begun = time.perf_counter()
    times = run_stages(inputs.montage.stages(inputs.tiles), seen, system.hosts, lambda _: None)
    took = time.perf_counter() - begun
    stages = {f"Montage, {stage.name} [s]": stage.seconds for stage in times}
    shutil.rmtree(seen[0])
    return {"Montage [s]": took} | stages


def compile_program(system, number, inputs):
    """Trees of source are copied in by the first host, compiled by all, linked by the first and run by the last."""
    seen = directories(system, f"compile{number}")
    begun = time.perf_counter()
    for library in inputs.libraries:
        compile_tree(library, [directory / library.name for directory in seen])
    took = time.perf_counter() - begun
    shutil.rmtree(seen[0])
    return {"compiling [s]": took}


def compile_tree(library, seen):
    """One library and a program with it, in a directory as each host sees it."""
    for part in ("src", "include"):
        shutil.copytree(library / part, seen[0] / part, copy_function=shutil.copyfile)
    (seen[0] / "program.c").write_text(PROGRAM_C)
    (seen[0] / "objects").mkdir()
    units = [*unit_names(library), "program.c"]
    with ThreadPoolExecutor(len(seen)) as pool:
        list(pool.map(compile_unit, units, itertools.cycle(seen)))
    objects = sorted(f"objects/{Path(unit).stem}.o" for unit in units if unit != "program.c")
    run_in(seen[0], "ar", "rcs", "library.a", *objects)
    run_in(seen[0], "gcc", "-o", "program", "objects/program.o", "library.a", "-lpthread")
    run_in(seen[-1], "./program")


def unit_names(library):
    """The units of a library, from the one that includes all of them; some are for another system."""
    lines = (library / "src/static.c").read_text().splitlines()
    included = [line.split('"')[1] for line in lines if line.startswith('#include "') and '.c"' in line]
    return [f"src/{name}" for name in included if "osx" not in name]


def compile_unit(unit, directory):
    """One unit, by one host."""
    target = f"objects/{Path(unit).stem}.o"
    run_in(directory, "gcc", "-O1", "-w", "-Iinclude", "-Isrc", "-c", unit, "-o", target)


def run_in(directory, *words):
    """Run a program to its end."""
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)} in {directory}: {done.stdout}{done.stderr}")


def hand_overs(system, number, _inputs):
    """A file that each host in turn opens, reads whole, checks and writes anew in its place."""
    name = f"handed{number}"
    pad = os.urandom(HANDED_BYTES - 8)
    (system.mount(1) / name).write_bytes(bytes(8) + pad)
    begun = time.perf_counter()
    for turn in range(HAND_OVERS):
        path = system.mount(turn % system.hosts + 1) / name
        descriptor = os.open(path, os.O_RDWR)
        body = os.pread(descriptor, HANDED_BYTES, 0)
        seen = int.from_bytes(body[:8], "little")
        if seen != turn or len(body) != HANDED_BYTES:
            sys.exit(f"{path} was handed over {turn} times and reads as after {seen}, {len(body)} bytes long")
        os.pwrite(descriptor, (turn + 1).to_bytes(8, "little") + body[8:], 0)
        os.close(descriptor)
    took = time.perf_counter() - begun
    (system.mount(1) / name).unlink()
    return {f"{HAND_OVERS} hand-overs [s]": took}
