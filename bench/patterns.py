#!/usr/bin/env python3
"""Measures what hints bring to the patterns in which workflows use files, over the hosts of a lab.

Each host runs one task at a time, as a process of its own. Without hints a task runs on the host of its number; with hints
it runs where the store says that most of its input lies. `intarsia-hints` has the pattern's own hint, `intarsia-derived`
those that `intarsia run` derives from the graph of the tasks. The central server is MooseFS with all names and bytes on
a host of its own, `moosefs` and `glusterfs` have their servers on all hosts; `local` is a directory of this machine that all
hosts share, which no network slows down. Eight that write one file of MooseFS (`gather`) take minutes.
Stages are timed from the start of their tasks to the end of the last. Beside the seven patterns there are two for which
a hint could be a burden: `part`, where a file is read by all and only its first eighth, and `few`, where three read it.

A run goes on where it was interrupted: every measurement is a line in the file of `--out`.

example:
  bench/patterns.py --quick                                      a first look
  bench/patterns.py --hosts 8 --mb 0.2,20 --repeat 5 --link 1gbit --out results/patterns.jsonl
"""

import argparse
import os
import statistics
import sys

import command_line
import cluster
import kept
import lab
import labs
import peers
import touched

sys.path.insert(0, str(labs.ROOT / "python/src"))
from intarsia.run.graph import Task, graph_of  # noqa: E402 - it is not installed where this runs
from intarsia.run.hints import Cluster, hints_of  # noqa: E402
from intarsia.run.temporary import for_store  # noqa: E402

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
    "part": {"pattern": "broadcast"},
    "few": {"pattern": "broadcast"},
}


def graph(pattern, workers, size):
    """The tasks of a pattern as a workflow has them; none where a graph cannot say what they do."""
    files, tasks = {}, []

    def task(name, inputs, outputs, size_of_each):
        tasks.append(Task(name, "x", tuple(inputs), tuple(outputs), stage=name.split("-")[0]))
        files.update(dict.fromkeys(outputs, size_of_each))

    share = size // len(workers)
    if pattern == "pipeline":
        for worker in workers:
            task(f"first-{worker}", [], [f"0-{worker}"], size // 2)
            for stage in range(3):
                task(f"t{stage}-{worker}", [f"{stage}-{worker}"], [f"{stage + 1}-{worker}"], size)
    elif pattern == "reduce":
        for worker in workers:
            task(f"make-{worker}", [], [f"part-{worker}"], share)
        task("gather", [f"part-{worker}" for worker in workers], ["sum"], size)
    elif pattern in ("broadcast", "part", "few", "scatter"):
        file = "matrix" if pattern == "scatter" else "table"
        task("make", [], [file], size)
        for worker in readers_of(pattern, workers):
            task(f"read-{worker}", [file], [f"out-{worker}"], 0)
    elif pattern == "distribute":
        task("make", [], [f"piece-{number}" for number in range(len(workers))], share)
        for number in range(len(workers)):
            task(f"read-{number}", [f"piece-{number}"], [f"out-{number}"], 0)
    elif pattern == "reuse":
        for worker, other in zip(workers, [*workers[1:], workers[0]]):
            task(f"make-{other}", [], [f"set-{other}"], share)
            task(f"read-{worker}", [f"set-{other}"], [f"out-{worker}"], 0)
            task(f"again-{worker}", [f"set-{other}"], [f"again-{worker}"], 0)
    return graph_of(pattern, pattern, tasks, files) if tasks else None


def readers_of(pattern, workers):
    """Those who read a file that one has written."""
    return {"few": workers[1:4], "scatter": workers}.get(pattern, workers[1:])


class Place:
    """The hosts of one system, as workers see a directory that is new for each run."""

    def __init__(self, system, kind, name):
        self.system, self.has_hints = system, kind == "intarsia-hints"
        self.is_derived = kind == "intarsia-derived"
        first = 2 if kind == "central" else 1
        self.workers = list(system.numbers())[first - 1 :]
        self.name = name
        self.at(self.workers[0]).mkdir()

    def at(self, worker):
        """The directory as a worker has it mounted."""
        return self.system.mount(worker) / self.name

    def hint(self, pattern, size, **values):
        """Say what the files will be used for."""
        tasks = graph(pattern, self.workers, size) if self.is_derived else None
        if tasks is not None:
            link = self.system.link
            rate = lab.bit_per_s(link) / 8 if link else 1e9
            for file, hints in hints_of(tasks, Cluster.linked(len(self.workers), rate)).items():
                path = self.at(self.workers[0]) / file
                path.touch()
                for key, value in for_store(hints).items():
                    os.setxattr(path, f"user.intarsia.{key}", value.encode())
        if self.has_hints:
            for key, value in HINTS[pattern].items():
                text = value.format(**values).encode()
                os.setxattr(self.at(self.workers[0]), f"user.intarsia.{key}", text)

    def worker_of(self, file, otherwise):
        """The worker that has most of a file."""
        if not (self.has_hints or self.is_derived):
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
    place.hint("pipeline", size)
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
    place.hint("reduce", size)
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
    region = -(-size // len(place.workers) // CHUNK_GRAIN) * CHUNK_GRAIN
    place.hint("scatter", size, region=region)
    write(place.at(place.workers[0]) / "matrix", region * len(place.workers))
    tasks = []
    for number, otherwise in enumerate(place.workers):
        worker = place.worker_of_region("matrix", number, otherwise)
        path = place.at(worker) / "matrix"
        tasks.append(lambda path=path, number=number: read(path, number * region, region))
    return at_once(tasks)


def distribute(place, size):
    """One task writes a file for each worker; then each reads one, which is what is timed."""
    place.hint("distribute", size)
    tasks = []
    for number, otherwise in enumerate(place.workers):
        name = f"piece-{number}"
        write(place.at(place.workers[0]) / name, size // len(place.workers))
        worker = place.worker_of(name, otherwise)
        tasks.append(lambda path=place.at(worker) / name: read(path))
    return at_once(tasks)


def broadcast(place, size):
    """One task writes a file; then every other worker reads all of it, which is what is timed."""
    place.hint("broadcast", size)
    write(place.at(place.workers[0]) / "table", size)
    return at_once([lambda w=w: read(place.at(w) / "table") for w in place.workers[1:]])


def part(place, size):
    """As broadcast, and every worker reads the first eighth."""
    place.hint("part", size)
    write(place.at(place.workers[0]) / "table", size)
    return at_once([lambda w=w: read(place.at(w) / "table", size=size // 8) for w in place.workers[1:]])


def few(place, size):
    """As broadcast, to three."""
    place.hint("few", size)
    write(place.at(place.workers[0]) / "table", size)
    chosen = readers_of("few", place.workers)
    return at_once([lambda w=w: read(place.at(w) / "table") for w in chosen])


def gather(place, size):
    """Every worker writes a region of one file, and one task reads it."""
    region = -(-size // len(place.workers) // CHUNK_GRAIN) * CHUNK_GRAIN
    place.hint("gather", size, region=region)
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
    place.hint("reuse", size)
    part = size // len(place.workers)
    for worker in place.workers:
        write(place.at(worker) / f"set-{worker}", part)
    place.system.settle()
    others = [*place.workers[1:], place.workers[0]]
    tasks = [lambda w=w, o=o: read(place.at(w) / f"set-{o}") for w, o in zip(place.workers, others)]
    at_once(tasks)
    return at_once(tasks)


PATTERNS = {
    f.__name__: f for f in (pipeline, broadcast, reduce, scatter, gather, reuse, distribute, part, few)
}
SYSTEMS = {
    "central": peers.Central,
    "moosefs": peers.MooseFs,
    "glusterfs": peers.GlusterFs,
    "intarsia": labs.Intarsia,
    "intarsia-hints": labs.Intarsia,
    "intarsia-derived": labs.Intarsia,
    "local": labs.Native,
}
# Above it the processors are what is measured.
BUSY_MAX = 0.8


def measure(system, name, pattern, size):
    """Seconds of one pattern, and how busy the processors were from its first write to its last read."""
    touched.MEMORY.touch()
    before = kept.busy_s()
    seconds = PATTERNS[pattern](Place(system, name, f"{pattern}-{size}"), size)
    return {"seconds": seconds, "busy": kept.busy_share(before)}


def told(found, settings):
    """A table for each size and pattern."""
    mine = kept.those(found, settings)
    commits = ", ".join(sorted({one["commit"] for one in mine}))
    print(f"{settings['hosts']} hosts of one machine, links {settings['link']}, commit {commits}; seconds")
    for mb, pattern in dict.fromkeys((one["mb"], one["pattern"]) for one in mine):
        print(f"\n{pattern}, {mb:g} MB")
        those = [one for one in mine if (one["mb"], one["pattern"]) == (mb, pattern)]
        names = [name for name in SYSTEMS if any(one["system"] == name for one in those)]
        by_system = {name: [one for one in those if one["system"] == name] for name in names}
        first = statistics.median(one["seconds"] for one in by_system[names[0]])
        for name, some in by_system.items():
            values = [one["seconds"] for one in some]
            busy = sum(one["busy"] > BUSY_MAX for one in some)
            print(
                f"  {name:16} {statistics.median(values):8.3f}   ({min(values):.3f} - {max(values):.3f}), n = {len(values)}, "
                f"{busy} over {BUSY_MAX:.0%} busy   {names[0]}/it {first / statistics.median(values):6.2f}"
            )


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="of %(default)s")
    parser.add_argument("--patterns", default=",".join(PATTERNS), help="of %(default)s")
    parser.add_argument("--hosts", type=int, default=8, help="workers (%(default)s)")
    parser.add_argument("--mb", default="20", help="sizes of the files of a chain, and of all parts together, in MB")
    parser.add_argument("--link", default="1gbit", help="rate of each link (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="four hosts, once")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--out", help="a file that keeps every measurement, a line each")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.hosts, arguments.repeat = 4, 1
    labs.end_on_signals()
    chosen = {name: SYSTEMS.get(name) for name in arguments.systems.split(",")}
    patterns = arguments.patterns.split(",")
    unknown = [name for name, kind in chosen.items() if kind is None] + [
        name for name in patterns if name not in PATTERNS
    ]
    if unknown:
        parser.error(f"'{unknown[0]}' is none of {', '.join([*SYSTEMS, *PATTERNS])}")
    sizes = [float(mb) for mb in arguments.mb.split(",")]
    chosen = labs.present(chosen, arguments.program)
    settings = {"hosts": arguments.hosts, "link": arguments.link}
    found = kept.remembered(arguments.out)
    commit = kept.commit()
    for number, name in labs.in_turn(chosen, arguments.repeat):
        cases = [
            {**settings, "system": name, "round": number, "mb": mb, "pattern": pattern}
            for mb in sizes
            for pattern in patterns
        ]
        left = [case for case in cases if not kept.holds(found, case)]
        if not left:
            continue
        hosts = arguments.hosts + (name == "central")
        with chosen[name](arguments.program, hosts, arguments.link, arguments.work) as system:
            for case in left:
                load = os.getloadavg()[0]
                measured = measure(system, name, case["pattern"], round(case["mb"] * 1_000_000))
                kept.keep(found, case | measured | {"load": load, "commit": commit}, arguments.out)
    told(found, settings)


if __name__ == "__main__":
    main()
