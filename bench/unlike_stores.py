#!/usr/bin/env python3
"""A session with `intarsia characterise`: unlike directories, advice, migration, measured gain.

Each directory is measured and modelled, and the model is held against some fresh loads, which say
whether the machine is as it was when the first were measured, and set the model right. Loads with a
file each lie on them, and run together, each by its own fio; then `balance-stores` advises, `migrate` moves (verified, at a bounded rate, leaving
links), undoes it and moves again, the loads run again, are moved back, and run a third time: what
changed with time alone shows in the difference between the first and the third.

example:
  bench/unlike_stores.py --out results/unlike          three directories made for it; needs root
  bench/unlike_stores.py --out results/mine --store fast=/mnt/ssd --store slow=/mnt/disk
"""

import contextlib
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import command_line
from throttled import MIB, Missing, three_stores

LOADS = {  # random %, read %, bytes, outstanding; after table 6.1 of the published loads
    "shop": (100, 70, 8192, 2),
    "mail": (100, 67, 4096, 3),
    "web": (75, 95, 4096, 2),
    "pictures": (75, 95, 65536, 1),
    "log": (0, 0, 65536, 1),
    "films": (0, 98, 65536, 2),
    "desk": (80, 80, 8192, 1),
}
CHARACTERISE = [sys.executable, "-W", "ignore", "-m", "intarsia.characterise"]
MEASURES = ("mean", "variance", "largest")


def parse_arguments():
    parser = command_line.parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="samples, models, raw results")
    parser.add_argument("--store", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--work", type=Path, default=Path("/tmp"), help="where directories are made")
    parser.add_argument("--again", action="store_true", help="use the models that OUT has")
    parser.add_argument("--repeat", type=int, default=5, help="runs before, after and back (5)")
    parser.add_argument("--seconds", type=int, default=5, help="of a run (5)")
    parser.add_argument("--points", type=int, default=48, help="loads measured on each store (48)")
    parser.add_argument("--groups", type=int, default=20, help="groups measured together (20)")
    parser.add_argument("--fresh", type=int, default=24, help="loads that check each model (24)")
    parser.add_argument("--file-mib", type=int, default=32, help="of each load (32)")
    parser.add_argument("--fit", type=int, default=3, help="loads that a store has room for (3)")
    parser.add_argument("--delay-ms", type=int, default=4, help="of the slow store (4)")
    parser.add_argument("--rate-mb", type=int, default=40, help="MB/s of the slow store (40)")
    return parser.parse_args()


def characterise(*words):
    command = [*CHARACTERISE, *(str(word) for word in words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return done.stdout


def model(stores, arguments):
    for name, path in stores.items():
        samples = arguments.out / f"{name}.csv"
        if arguments.again and (arguments.out / f"{name}.json").exists():
            continue
        measure(path, samples, "--points", arguments.points, "--groups", arguments.groups)
        print(characterise("fit", samples, "--out", arguments.out / f"{name}.json"))


def measure(path, samples, *words):
    characterise("measure", path, *words, "--seconds", 0.4, "--size", "96m", "--out", samples)


def check(stores, arguments):
    """Hold each model against fresh loads, and let it take over by how much they differ."""
    for name, path in stores.items():
        fresh, fitted = arguments.out / f"{name}-fresh.csv", arguments.out / f"{name}.json"
        # Other loads than those that the model was fitted to.
        measure(path, fresh, "--points", arguments.fresh, "--groups", 0, "--seed", 2)
        print(f"{name}: {characterise('check', fitted, fresh, '--out', fitted)}", flush=True)


def place(stores, arguments):
    """Lay out a file for each load, dealt over the stores in turn, the last one first."""
    names = list(stores)[::-1]
    homes = {}
    for number, load in enumerate(LOADS):
        home = names[number % len(names)]
        folder = stores[home] / "loads" / load
        folder.mkdir(parents=True)
        (folder / "data").write_bytes(b"\5" * (arguments.file_mib * MIB))
        homes[load] = home
    return homes


def write_pool(path, stores, homes, arguments):
    lines = []
    for name in stores:
        room = f'capacity = "{(arguments.fit + 0.5) * arguments.file_mib * 1.05:g} MB"'
        lines += [f"[stores.{name}]", f'model = "{name}.json"', room]
    for load, (random, read, size, depth) in LOADS.items():
        lines += [f"[loads.{load}]", f'store = "{homes[load]}"', f'size = "{arguments.file_mib} MB"',
                  f"random = {random}", f"read = {read}", f"bytes = {size}",
                  f"outstanding = {depth}"]
    path.write_text("\n".join(lines) + "\n")


def run_together(stores, homes, seconds):
    """Run all loads at once; returns the mean latency of each in ms, and how many it had answered."""
    running = {}
    for load, (random, read, size, depth) in LOADS.items():
        path = stores[homes[load]] / "loads" / load / "data"
        command = ["fio", f"--name={load}", f"--filename={path}", f"--filesize={path.stat().st_size}",
                   "--allow_file_create=0", "--direct=1", "--ioengine=libaio", f"--bs={size}",
                   "--rw=randrw", f"--rwmixread={read}", f"--percentage_random={random}",
                   f"--iodepth={depth}", "--norandommap=1", "--randrepeat=0", "--time_based",
                   "--ramp_time=1", f"--runtime={seconds}", "--output-format=json"]
        running[load] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found = {}
    for load, process in running.items():
        text, _ = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"fio of {load} failed")
        job = json.loads(text[text.index("{"):])["jobs"][0]
        sides = [job["read"], job["write"]]
        count = sum(side["total_ios"] for side in sides)
        waited = sum(side["total_ios"] * side["lat_ns"]["mean"] for side in sides) / 1e6
        found[load] = {"ms": waited / count, "requests": count}
    return found


def phase(title, stores, homes, arguments):
    runs = [run_together(stores, homes, arguments.seconds) for _ in range(arguments.repeat)]
    print(f"{title}: {len(runs)} runs of {arguments.seconds} s", flush=True)
    return runs


def move(stores, moves):
    """Migrate as advised; returns the journals by which each move can be undone."""
    journals = []
    for one in moves:
        source, target = (stores[one[end]] / "loads" for end in ("source", "target"))
        target.mkdir(exist_ok=True)
        words = ["migrate", source / one["name"], target, "--rate", "100MB", "--link", "--yes", "--json"]
        journals.append(json.loads(characterise(*words))["journal"])
    return journals


def undo(journals):
    for journal in reversed(journals):
        characterise("migrate", "--undo", journal)


def move_back(stores, moves):
    """Move back what was written since, which undoing refuses to lose."""
    for one in reversed(moves):
        source, target = (stores[one[end]] / "loads" for end in ("source", "target"))
        (source / one["name"]).unlink()
        characterise("migrate", target / one["name"], source, "--rate", "100MB", "--yes")


def of_stores(run, homes):
    """Return the mean latency of all requests of each store, which is what a model tells."""
    found = {}
    for name in dict.fromkeys(homes.values()):
        mine = [run[load] for load, home in homes.items() if home == name]
        requests = sum(one["requests"] for one in mine)
        found[name] = sum(one["ms"] * one["requests"] for one in mine) / requests
    return found


def measures(run):
    values = [one["ms"] for one in run.values()]
    return {"mean": statistics.fmean(values), "variance": statistics.pvariance(values),
            "largest": max(values)}


def middle(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g}–{max(values):.3g})"


def report(phases, plan, homes):
    print(f"\nlatency of {len(LOADS)} loads in ms (variance: ms²), median of "
          f"{len(phases['before'])} runs (least–most)")
    rows = [("", *phases, "lower by")]
    for load in LOADS:
        rows.append((load, *(middle([run[load]["ms"] for run in runs]) for runs in phases.values()), ""))
    for name in MEASURES:
        by_phase = {title: [measures(run)[name] for run in runs] for title, runs in phases.items()}
        before = statistics.median(by_phase["before"] + by_phase["back"])
        gain = 1 - statistics.median(by_phase["after"]) / before
        rows.append((name, *(middle(values) for values in by_phase.values()), f"{gain:.0%}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)))
    print(f"\nmoves: {len(plan['moves'])}; mean latency of all requests of a store in ms, "
          "said by its model | measured")
    moved = homes | {one["name"]: one["target"] for one in plan["moves"]}
    for name in plan["before_ms"]:
        cells = [
            f"{plan[f'{title}_ms'][name]:.3g} | "
            + middle([of_stores(run, places).get(name, 0.0) for run in phases[title]])
            for title, places in (("before", homes), ("after", moved))
        ]
        print(f"{name}: before {cells[0]}; after {cells[1]}")


def session(stores, arguments):
    begun = time.monotonic()
    model(stores, arguments)
    print(f"three models in {(time.monotonic() - begun) / 60:.1f} minutes\n", flush=True)
    check(stores, arguments)
    homes = place(stores, arguments)
    pool = arguments.out / "pool.toml"
    write_pool(pool, stores, homes, arguments)
    print(characterise("balance", pool), flush=True)
    plan = json.loads(characterise("balance", pool, "--json"))
    phases = {"before": phase("before", stores, homes, arguments)}
    undo(move(stores, plan["moves"]))
    move(stores, plan["moves"])
    phases["after"] = phase("after", stores, homes, arguments)
    move_back(stores, plan["moves"])
    phases["back"] = phase("back", stores, homes, arguments)
    (arguments.out / "session.json").write_text(json.dumps({"plan": plan, "runs": phases}, indent=1))
    report(phases, plan, homes)


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="intarsia-unlike-", dir=arguments.work) as made:
        try:
            if arguments.store:
                with contextlib.ExitStack() as stack:
                    session({
                        name: Path(stack.enter_context(tempfile.TemporaryDirectory(dir=path)))
                        for name, path in (one.split("=", 1) for one in arguments.store)
                    }, arguments)
            else:
                room = 96 + 8 * arguments.file_mib + 64
                options = {"delay_ms": arguments.delay_ms, "rate_mb": arguments.rate_mb}
                with three_stores(Path(made), room_mib=room, **options) as stores:
                    session(stores, arguments)
        except Missing as error:
            raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
