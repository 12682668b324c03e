#!/usr/bin/env python3
"""Measures what users notice on one host: unpacking, removing, dbench and fsx, beside a plain directory of the same disk.

The systems take turns. `native` is a directory below `--work`, `intarsia` a store of one host over another one, and `lab` the
first host of a store over `--hosts` of them, whose data and metadata lie below `--work` too. The archive has a directory for every
twenty files of 0 to 8 KiB. dbench runs one client; fsx reads back whatever it wrote, and runs by the configuration of the tests
that closes the file all the time.

example:
  apt-get install dbench
  bench/everyday.py --systems native,intarsia --repeat 3
  bench/everyday.py --systems native,lab --entries 9700 --work /dev/shm --workloads tar,fsx
"""

import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path

import command_line
import labs
import systems

FILES_OF_A_DIRECTORY = 20
FILE_BYTES_MAX = 8192
FSX = labs.ROOT / "target/tools/bin/fsx"
FSX_CONFIGURATION = labs.ROOT / "tests/posix/fsx/small.toml"
NEEDS = {"tar": ("tar", "apt-get install tar"), "dbench": ("dbench", "apt-get install dbench"), "fsx": (FSX, "make setup")}


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--systems", default="native,intarsia,lab", help="of %(default)s")
    parser.add_argument("--workloads", default=",".join(NEEDS), help="of %(default)s")
    parser.add_argument("--entries", type=int, default=21000, help="of the archive")
    parser.add_argument("--dbench-s", type=int, default=10, help="how long dbench runs")
    parser.add_argument("--operations", type=int, default=20000, help="of fsx")
    parser.add_argument("--hosts", type=int, default=4, help="of the lab")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", default="/var/tmp", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    arguments = parser.parse_args()
    labs.end_on_signals()
    chosen = chosen_of(parser, "system", arguments.systems, SYSTEMS)
    workloads = chosen_of(parser, "workload", arguments.workloads, NEEDS)
    for name in workloads:
        program, how = NEEDS[name]
        if not shutil.which(str(program)):
            parser.error(f"{program} is missing; {how}")
    with tempfile.TemporaryDirectory(prefix="bench-everyday-", dir=arguments.work) as place:
        archive = make_archive(Path(place) / "tree.tar", arguments.entries) if "tar" in workloads else None
        rows, loads = {}, []
        for number, name in labs.in_turn(chosen, arguments.repeat):
            loads.append(os.getloadavg()[0])
            with SYSTEMS[name](arguments, Path(place) / f"{name}{number}") as directory:
                for what, value in measure(directory, workloads, archive, arguments):
                    rows.setdefault(what, {}).setdefault(name, []).append(value)
    show(rows, loads, arguments)


def chosen_of(parser, what, given, known):
    """The names in a list of them, all of which have to be known."""
    names = given.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return names


@contextlib.contextmanager
def native(_, place):
    """A plain directory."""
    place.mkdir()
    yield place


@contextlib.contextmanager
def one_host(arguments, place):
    """A store of one host."""
    place.mkdir()
    system = systems.Intarsia("intarsia", place, "up")
    system.program = Path(arguments.program)
    try:
        system.start()
        yield system.mount
    finally:
        system.stop()


@contextlib.contextmanager
def lab_host(arguments, _):
    """The first host of a store over several."""
    with labs.Intarsia(arguments.program, arguments.hosts, None, arguments.work) as lab:
        yield lab.mount(1)


SYSTEMS = {"native": native, "intarsia": one_host, "lab": lab_host}


def make_archive(path, entries):
    """An archive of so many entries; the same one every time."""
    dice = random.Random(15)
    directories = max(1, entries // (FILES_OF_A_DIRECTORY + 1))
    with tarfile.open(path, "w") as archive:
        for entry in range(entries):
            number, is_file = entry % directories, entry >= directories
            info = tarfile.TarInfo(f"tree/d{number}" + (f"/f{entry}" if is_file else ""))
            info.mtime = 1_700_000_000
            body = dice.randbytes(dice.randrange(FILE_BYTES_MAX)) if is_file else b""
            info.size, info.mode = len(body), 0o644 if is_file else 0o755
            info.type = tarfile.REGTYPE if is_file else tarfile.DIRTYPE
            archive.addfile(info, BytesIO(body))
    return path


def measure(directory, workloads, archive, arguments):
    """Name and value of each measurement in a directory."""
    if "tar" in workloads:
        yield f"tar x of {arguments.entries:,} entries [s]", timed("tar", "-xf", archive, "-C", directory)
        yield f"rm -rf of {arguments.entries:,} entries [s]", timed("rm", "-rf", directory / "tree")
    if "dbench" in workloads:
        yield "dbench, one client [MB/s]", dbench(directory, arguments.dbench_s)
    if "fsx" in workloads:
        words = ["-N", arguments.operations, "-S", 1977, "-f", FSX_CONFIGURATION, directory / "fsx"]
        yield f"fsx, {arguments.operations:,} operations [s]", timed(FSX, *words, cwd=archive_place(archive))


def archive_place(archive):
    """Where fsx may leave what it found; not in the file system that is measured."""
    return archive.parent if archive else tempfile.gettempdir()


def timed(*words, cwd=None):
    """Seconds that a command takes."""
    begun = time.perf_counter()
    run(*words, cwd=cwd)
    return time.perf_counter() - begun


def run(*words, cwd=None):
    """Run a command to its end; what it printed."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"everyday.py: {words[0]}: {(done.stdout + done.stderr).strip()[-800:]}")
    return done.stdout


def dbench(directory, seconds):
    """MB/s that dbench says."""
    said = run("dbench", "-D", directory, "-t", seconds, 1)
    line = next(line for line in said.splitlines() if line.startswith("Throughput"))
    return float(line.split()[1])


def show(rows, loads, arguments):
    """Median, spread and the ratio to the first system, for each measurement."""
    load = f"load {min(loads):.1f} to {max(loads):.1f}"
    print(f"n = {arguments.repeat}, {load}, data below {arguments.work}")
    for what, of_systems in rows.items():
        print(f"\n{what}")
        first = statistics.median(next(iter(of_systems.values())))
        for name, values in of_systems.items():
            median = statistics.median(values)
            spread = f"{min(values):,.2f} - {max(values):,.2f}"
            print(f"  {name:10} {median:>10,.2f}   ({spread})   {median / first:6.2f} of the first")


if __name__ == "__main__":
    main()
