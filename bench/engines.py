#!/usr/bin/env python3
"""Runs the examples of the users' pages with Dask, Snakemake, Parsl and Nextflow over four hosts of a lab, with the adapter and without.

Two of the hosts have written the parts; each is cleaned, and what comes of it is packed. Without the adapter means the engine's own choice with Dask,
the policy `blind` with Snakemake and Parsl, which knows nothing of data, and Slurm's own choice with Nextflow, whose tasks go to a Slurm that has the
hosts as its nodes. The adapter of Dask may wait 60 s for a host; those of Snakemake and Parsl weigh waiting against moving by themselves; Slurm takes
another node while the preferred one is busy, and with the way `waiting` of Nextflow it waits for as long as that takes.
Seconds are those of the whole command, so with the engine's start, but not Slurm's;
bytes are what the hosts' links receive meanwhile, with what the engine says to its workers. A task is local if its result lies where its input does,
for files are born where they are written.

example:
  .venv/bin/python bench/engines.py --quick
  .venv/bin/python bench/engines.py --mb 20 --link 100mbit --repeat 5
"""

import contextlib
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
import slurm_hosts
import workflows

ENGINES = ("dask", "snakemake", "parsl", "nextflow")
EXAMPLES = labs.ROOT / "docs/user/engines"
HOSTS = 4
LIMIT_S = 300
LINE = b"0123456789abcdef0123456789abcdef\n"
WAYS = ("adapter", "without")
NEXTFLOW = labs.ROOT / "build/nextflow/lib"
# What Nextflow tells Slurm of a task's input, by the way.
FORMS = {"adapter": "prefer", "waiting": "nodelist", "without": "none"}


def words_of(engine, place, runner, way, link):
    """The command of an example; what its adapter may wait, or knows of the links."""
    names = ",".join(runner.hosts)
    if engine == "nextflow":
        return nextflow_words(place, runner, way)
    if engine == "snakemake":
        words = ["-m", "snakemake", "--executor", "intarsia", "--jobs", HOSTS, "--intarsia-hosts", names]
        words += ["--intarsia-shell", f"{runner.script} {{host}}", "--snakefile", EXAMPLES / "Snakefile", "--directory", place]
        words += ["--intarsia-link", link] if way == "adapter" else ["--intarsia-policy", "blind"]
    else:
        words = [EXAMPLES / f"{engine}_pipeline.py", place, "--hosts", names, "--address", runner.system.addresses[1]]
        words += ["--shell", f"{runner.script} {{host}}"]
        adapter = ["--patience", 60] if engine == "dask" else ["--link", link]
        words += adapter if way == "adapter" else ["--blind"]
    return [sys.executable, *words]


def nextflow_words(place, runner, way):
    """The command of Nextflow, which looks after its tasks each second instead of every five."""
    configuration = runner.system.dir / "nextflow.config"
    configuration.write_text("executor.pollInterval = '1 sec'\n")
    words = ["java", "-cp", f"{NEXTFLOW}/*", "nextflow.cli.Launcher", "run", EXAMPLES / "nextflow_pipeline.nf", "-ansi-log", "false", "-c", configuration]
    words += ["-w", place / "work", "--parts", place / "parts", "--out", place / "packed"]
    return words + ["--intarsia_python", sys.executable, "--intarsia_form", FORMS[way]]


@contextlib.contextmanager
def ready(engine, runner):
    """What an engine needs is up, for Nextflow a Slurm; its environment and the directory that it is begun in."""
    environment = os.environ | {"PYTHONPATH": str(labs.ROOT / "python/src")}
    if engine != "nextflow":
        yield environment, "/"
        return
    with slurm_hosts.Slurm(runner) as slurm:
        own = {"NXF_OFFLINE": "true", "NXF_HOME": str(slurm.directory / "home")}
        yield environment | slurm.environment | own, slurm.directory


def run(runner, engine, way, number, size, link):
    """Seconds, bytes over the links, tasks beside their input, and how busy the processors were."""
    system, name = runner.system, f"{engine}-{way}-{number}"
    (system.mount(1) / name / "parts").mkdir(parents=True)
    for part in range(4):
        path = system.mount(3 + part % 2) / name / f"parts/{part}.txt"
        path.write_bytes(b"# a part\n" + LINE * (size // len(LINE)))
    command = " ".join(f"'{word}'" for word in words_of(engine, runner.common / name, runner, way, link))
    with ready(engine, runner) as (environment, place):
        sample = metered(runner, f"cd {place} && {command}", environment)
    sample["local"] = local_tasks(engine, system.mount(1) / name)
    shutil.rmtree(system.mount(1) / name)
    return sample


def metered(runner, command, environment):
    """Run a command on the first host: what it took."""
    before = kept.busy_s()
    with workflows.Meter(runner.system) as meter:
        began = time.time()
        done = subprocess.run([runner.script, "n1", command], capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        ended = time.time()
    if done.returncode:
        sys.exit(f"{command}\nended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return {"seconds": ended - began, "bytes": meter.between(began, ended)[0], "busy": kept.busy_share(before)}


def local_tasks(engine, place):
    """How many of the eight tasks ran where their input lies."""
    found = 0
    for part in sorted((place / "parts").iterdir()):
        steps = [part, place / "clean" / part.name, place / "packed" / f"{part.name}.gz"]
        if engine == "nextflow":
            made = [path for path in (place / "work").glob(f"*/*/{part.name}.clean") if not path.is_symlink()]
            steps = [part, *made, place / "packed" / f"{part.name}.clean.gz"]
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


def present(engines):
    """Those of the engines that can be measured here; that the others are missing is said."""
    try:
        labs.require({"java": "openjdk-17-jre-headless", **slurm_hosts.NEEDS})
        if not NEXTFLOW.exists():
            raise labs.Absent("Nextflow is missing; scripts/fetch_nextflow.sh")
    except labs.Absent as absent:
        if "nextflow" in engines:
            print(f"engines.py: nextflow is left out: {absent}", file=sys.stderr)
        return [engine for engine in engines if engine != "nextflow"]
    return engines


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--engines", default=",".join(ENGINES), help="of %(default)s")
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
        if engine not in ENGINES:
            parser.error(f"'{engine}' is none of {', '.join(ENGINES)}")
    labs.end_on_signals()
    labs.Intarsia.check(arguments.program)
    cases = [(engine, way) for engine in present(engines) for way in WAYS + ("waiting",) * (engine == "nextflow")]
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
