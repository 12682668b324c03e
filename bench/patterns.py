#!/usr/bin/env python3
"""Measures what hints bring to the patterns in which workflows use files, over the hosts of a lab.

Each host runs one task at a time, as a process of its own. Without hints a task runs on the host of its number; with hints
it runs where the store says that most of its input lies. The central server is MooseFS with all names and bytes on
a host of its own; `local` is a directory of this machine that all hosts share, which no network slows down.
Stages are timed from the start of their tasks to the end of the last.

example:
  bench/patterns.py --quick                                      a first look
  bench/patterns.py --hosts 8 --mb 20 --repeat 5 --link 1gbit
"""

import argparse
import json
import os
import statistics

import command_line
import cluster
import labs
import peers

BLOCK = 1 << 20
# Lengths of regions are multiples of it, as those of chunks are.
CHUNK_GRAIN = 4096
HINTS = {
    "reduce": {"pattern": "reduce"},
    "scatter": {"place": "scatter:{region}"},
    "distribute": {"pattern": "distribute"},
    "pipeline": {"pattern": "pipeline"},
    "broadcast": {"pattern": "broadcast"},
    "gather": {"pattern": "gather", "chunk": "{region}"},
    "reuse": {"pattern": "reuse"},
}


class Place:
    """The hosts of one system, as workers see a directory that is new for each run."""

    def __init__(self, system, kind, name):
        self.system, self.has_hints = system, kind == "intarsia-hints"
        first = 2 if kind == "central" else 1
        self.workers = list(system.numbers())[first - 1 :]
        self.name = name
        self.at(self.workers[0]).mkdir()

    def at(self, worker):
        """The directory as a worker has it mounted."""
        return self.system.mount(worker) / self.name

    def hint(self, pattern, **values):
        """Say what the files will be used for."""
        if self.has_hints:
            for key, value in HINTS[pattern].items():
                text = value.format(**values).encode()
                os.setxattr(self.at(self.workers[0]), f"user.intarsia.{key}", text)

    def worker_of(self, file, otherwise):
        """The worker that has most of a file."""
        if not self.has_hints:
            return otherwise
        found = os.getxattr(self.at(self.workers[0]) / file, "user.intarsia.location").decode()
        return self.number(found.split(",")[0], otherwise)

    def worker_of_region(self, file, number, otherwise):
        """The worker that has a region of a scattered file."""
        if not self.has_hints:
            return otherwise
        layout = os.getxattr(self.at(self.workers[0]) / file, "user.intarsia.layout").decode()
        hosts = dict(word.split("=") for word in layout.split()[1:])["hosts"].split(",")
        return self.number(hosts[number % len(hosts)], otherwise)

    def number(self, host, otherwise):
        """The number of a host that the store names."""
        return int(host[1:]) if host[1:].isdigit() else otherwise


def at_once(tasks):
    """Run each function in a process of its own from a common start; seconds until the last has ended."""
    system = argparse.Namespace(hosts=len(tasks), numbers=lambda: range(len(tasks)))
    return cluster.on_all(system, lambda number: tasks[number]())


def write(path, size):
    """Write a new file."""
    block = os.urandom(BLOCK)
    with open(path, "wb", buffering=0) as file:
        for at in range(0, size, BLOCK):
            file.write(block[: min(BLOCK, size - at)])


def read(path, start=0, size=None):
    """Read a file, or a region of it."""
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        left = size if size is not None else os.fstat(file.fileno()).st_size
        while left and (chunk := file.read(min(BLOCK, left))):
            left -= len(chunk)
        assert left == 0, (path, left)


def pipeline(place, size):
    """Every worker has a chain of three tasks, each of which reads what the one before wrote."""
    place.hint("pipeline")
    for worker in place.workers:
        write(place.at(worker) / f"0-{worker}", size // 2)

    def task(worker, stage):
        def do():
            read(place.at(worker) / f"{stage}-{worker}")
            write(place.at(worker) / f"{stage + 1}-{worker}", size)

        return do

    return sum(at_once([task(worker, stage) for worker in place.workers]) for stage in range(3))


def reduce(place, size):
    """Every worker writes a file, and one task reads all of them and writes as much."""
    place.hint("reduce")
    part = size // len(place.workers)
    names = {worker: f"part-{worker}" for worker in place.workers}
    made = at_once([lambda w=w: write(place.at(w) / names[w], part) for w in place.workers])
    worker = place.worker_of(names[place.workers[-1]], place.workers[0])

    def gather():
        for name in names.values():
            read(place.at(worker) / name)
        write(place.at(worker) / "sum", size)

    return made + at_once([gather])


def scatter(place, size):
    """One task writes a file; then every worker reads a region of it, which is what is timed."""
    region = size // len(place.workers)
    place.hint("scatter", region=region)
    write(place.at(place.workers[0]) / "matrix", region * len(place.workers))
    tasks = []
    for number, otherwise in enumerate(place.workers):
        worker = place.worker_of_region("matrix", number, otherwise)
        path = place.at(worker) / "matrix"
        tasks.append(lambda path=path, number=number: read(path, number * region, region))
    return at_once(tasks)


def distribute(place, size):
    """One task writes a file for each worker; then each reads one, which is what is timed."""
    place.hint("distribute")
    tasks = []
    for number, otherwise in enumerate(place.workers):
        name = f"piece-{number}"
        write(place.at(place.workers[0]) / name, size // len(place.workers))
        worker = place.worker_of(name, otherwise)
        tasks.append(lambda path=place.at(worker) / name: read(path))
    return at_once(tasks)


def broadcast(place, size):
    """One task writes a file; then every other worker reads all of it, which is what is timed."""
    place.hint("broadcast")
    write(place.at(place.workers[0]) / "table", size)
    return at_once([lambda w=w: read(place.at(w) / "table") for w in place.workers[1:]])


def gather(place, size):
    """Every worker writes a region of one file, and one task reads it."""
    region = -(-size // len(place.workers) // CHUNK_GRAIN) * CHUNK_GRAIN
    place.hint("gather", region=region)
    (place.at(place.workers[0]) / "image").touch()

    def task(number, worker):
        def do():
            with open(place.at(worker) / "image", "r+b", buffering=0) as file:
                for at in range(0, region, BLOCK):
                    file.seek(number * region + at)
                    file.write(os.urandom(min(BLOCK, region - at)))

        return do

    made = at_once([task(number, worker) for number, worker in enumerate(place.workers)])
    reader = place.at(place.workers[-1]) / "image"
    return made + at_once([lambda: read(reader, size=region * len(place.workers))])


def reuse(place, size):
    """Every worker reads a file of another one twice; the second time is what is timed."""
    place.hint("reuse")
    part = size // len(place.workers)
    for worker in place.workers:
        write(place.at(worker) / f"set-{worker}", part)
    place.system.settle()
    others = [*place.workers[1:], place.workers[0]]
    tasks = [lambda w=w, o=o: read(place.at(w) / f"set-{o}") for w, o in zip(place.workers, others)]
    at_once(tasks)
    return at_once(tasks)


PATTERNS = {f.__name__: f for f in (pipeline, broadcast, reduce, scatter, gather, reuse, distribute)}
SYSTEMS = {
    "central": peers.Central,
    "intarsia": labs.Intarsia,
    "intarsia-hints": labs.Intarsia,
    "local": labs.Native,
}


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="of %(default)s")
    parser.add_argument("--patterns", default=",".join(PATTERNS), help="of %(default)s")
    parser.add_argument("--hosts", type=int, default=8, help="workers (%(default)s)")
    parser.add_argument("--mb", type=int, default=20, help="size of the files of a chain, and of all parts together, in MB")
    parser.add_argument("--link", default="1gbit", help="rate of each link (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="four hosts, once")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.hosts, arguments.repeat = 4, 1
    labs.end_on_signals()
    chosen = {name: SYSTEMS.get(name) for name in arguments.systems.split(",")}
    patterns = {name: PATTERNS.get(name) for name in arguments.patterns.split(",")}
    for unknown in [name for name, kind in (chosen | patterns).items() if kind is None]:
        parser.error(f"'{unknown}' is none of {', '.join([*SYSTEMS, *PATTERNS])}")
    chosen = labs.present(chosen, arguments.program)
    found = {name: {pattern: [] for pattern in patterns} for name in chosen}
    loads = []
    for _, name in labs.in_turn(chosen, arguments.repeat):
        loads.append(os.getloadavg()[0])
        hosts = arguments.hosts + (name == "central")
        with chosen[name](arguments.program, hosts, arguments.link, arguments.work) as system:
            for pattern, run in patterns.items():
                seconds = run(Place(system, name, pattern), arguments.mb * 1_000_000)
                found[name][pattern].append(seconds)
    if arguments.json:
        print(json.dumps({"arguments": vars(arguments), "loads": loads, "seconds": found}, indent=1))
        return
    names = list(chosen)
    print(f"{arguments.hosts} hosts of one machine, links {arguments.link}, n = {arguments.repeat}, load {min(loads):.1f} to {max(loads):.1f}; seconds")
    for pattern in patterns:
        print(f"\n{pattern}")
        for name, by_pattern in found.items():
            values = by_pattern[pattern]
            ratio = statistics.median(found[names[0]][pattern]) / statistics.median(values)
            spread = f"{min(values):.3f} - {max(values):.3f}"
            print(f"  {name:16} {statistics.median(values):8.3f}   ({spread})   {names[0]}/it {ratio:6.2f}")


if __name__ == "__main__":
    main()
