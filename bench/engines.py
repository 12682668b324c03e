#!/usr/bin/env python3
"""Runs the examples of the users' pages with Dask, Snakemake and Parsl over four hosts of a lab, with the adapter and without.

Two of the hosts have written the parts; each is cleaned, and what comes of it is packed. Without the adapter means the engine's own choice with Dask
and the policy `blind` with Snakemake and Parsl, which knows nothing of data. The adapter of Dask may wait 60 s for a host; those of
Snakemake and Parsl weigh waiting against moving by themselves. Seconds are those of the whole command, so with the engine's start;
bytes are what the hosts' links receive meanwhile, with what the engine says to its workers. A task is local if its result lies where its input does,
for files are born where they are written. Nextflow is left out: its tasks go to Slurm, whose nodes are one machine here.

example:
  .venv/bin/python bench/engines.py --quick
  .venv/bin/python bench/engines.py --mb 20 --link 100mbit --repeat 5
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import command_line
import kept
import labs
import workflows

EXAMPLES = labs.ROOT / "docs/user/engines"
HOSTS = 4
LIMIT_S = 300
LINE = b"0123456789abcdef0123456789abcdef\n"
WAYS = ("adapter", "without")


def words_of(engine, place, runner, way, link):
    """The command of an example; what its adapter may wait, or knows of the links."""
    names = ",".join(runner.hosts)
    if engine == "snakemake":
        words = ["-m", "snakemake", "--executor", "intarsia", "--jobs", HOSTS, "--intarsia-hosts", names]
        words += ["--intarsia-shell", f"{runner.script} {{host}}", "--snakefile", EXAMPLES / "Snakefile", "--directory", place]
        return words + (["--intarsia-link", link] if way == "adapter" else ["--intarsia-policy", "blind"])
    words = [EXAMPLES / f"{engine}_pipeline.py", place, "--hosts", names, "--address", runner.system.addresses[1]]
    words += ["--shell", f"{runner.script} {{host}}"]
    if way == "without":
        return [*words, "--blind"]
    return words + (["--patience", 60] if engine == "dask" else ["--link", link])


def run(runner, engine, way, number, size, link):
    """Seconds, bytes over the links, tasks beside their input, and how busy the processors were."""
    system, name = runner.system, f"{engine}-{way}-{number}"
    (system.mount(1) / name / "parts").mkdir(parents=True)
    for part in range(4):
        path = system.mount(3 + part % 2) / name / f"parts/{part}.txt"
        path.write_bytes(b"# a part\n" + LINE * (size // len(LINE)))
    environment = os.environ | {"PYTHONPATH": str(labs.ROOT / "python/src")}
    command = " ".join(f"'{word}'" for word in [sys.executable, *words_of(engine, runner.common / name, runner, way, link)])
    before = kept.busy_s()
    with workflows.Meter(system) as meter:
        began = time.time()
        done = subprocess.run([runner.script, "n1", command], capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        ended = time.time()
    if done.returncode:
        sys.exit(f"{command}\nended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    busy = kept.busy_share(before)
    local = local_tasks(system.mount(1) / name)
    shutil.rmtree(system.mount(1) / name)
    return {"seconds": ended - began, "bytes": meter.between(began, ended)[0], "local": local, "busy": busy}


def local_tasks(place):
    """How many of the eight tasks ran where their input lies."""
    found = 0
    for part in sorted((place / "parts").iterdir()):
        steps = [part, place / "clean" / part.name, place / "packed" / f"{part.name}.gz"]
        homes = [os.getxattr(step, "user.intarsia.location").decode().split(",")[0] for step in steps]
        found += (homes[0] == homes[1]) + (homes[1] == homes[2])
    return found


def told(arguments, found):
    """A table in the Markdown of the users' page."""
    print(f"{HOSTS} hosts of one machine, links {arguments.link}, four parts of {arguments.mb} MB, n = {arguments.repeat}, commit {kept.commit()}. Median (least-most).\n")
    print("| engine | | seconds | MB over links | tasks beside their input, of 8 | processors busy |\n|---|---|---:|---:|---:|---:|")
    for (engine, way), samples in found.items():
        columns = {key: [one[key] for one in samples] for key in samples[0]}
        middle = {key: statistics.median(values) for key, values in columns.items()}
        print(
            f"| {engine} | {way} | {middle['seconds']:.1f} ({min(columns['seconds']):.1f}-{max(columns['seconds']):.1f}) | {middle['bytes'] / 1e6:.1f} "
            f"({min(columns['bytes']) / 1e6:.1f}-{max(columns['bytes']) / 1e6:.1f}) | {middle['local']:g} | {middle['busy']:.0%} |"
        )


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--engines", default="dask,snakemake,parsl", help="of %(default)s")
    parser.add_argument("--mb", type=int, default=20, help="length of each part (%(default)s)")
    parser.add_argument("--link", default="100mbit", help="rate of each link (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="2 MB, once")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.mb, arguments.repeat = 2, 1
    engines = arguments.engines.split(",")
    for engine in engines:
        if engine not in ("dask", "snakemake", "parsl"):
            parser.error(f"'{engine}' is none of dask, snakemake, parsl")
    labs.end_on_signals()
    labs.Intarsia.check(arguments.program)
    cases = [(engine, way) for engine in engines for way in WAYS]
    found = {case: [] for case in cases}
    with labs.Intarsia(arguments.program, HOSTS, arguments.link, arguments.work) as system:
        runner = workflows.Runner(system, "intarsia")
        for number, (engine, way) in labs.in_turn(cases, arguments.repeat):
            found[engine, way].append(run(runner, engine, way, number, arguments.mb * 1_000_000, arguments.link))
    if arguments.json:
        print(json.dumps([{"engine": engine, "way": way, "samples": samples} for (engine, way), samples in found.items()]))
    else:
        told(arguments, found)


if __name__ == "__main__":
    main()
