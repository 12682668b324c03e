#!/usr/bin/env python3
"""Follows an advice for a recorded workflow step by step over the hosts of a lab, and measures what it brings.

The steps are those of docs/user/predict.md: seed a store, run once and refine the profile by what the engine took for each task, advise, bring
a store up by the advice, run by it. The runs before are those of a store that nobody configured: `blind`, its tasks on any free host without hints,
as under a scheduler that does not know where files lie; and `default`, as `intarsia run` does by itself, whose first run tells of the engine. An instance
is scaled to the bytes and seconds of bench/workflows.py, in its own file, so that prediction and runs read the same.

example:
  bench/followed.py --instance montage --repeat 3
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import command_line
import kept
import labs
import predicted
import workflows

from intarsia.refine.engine import with_engine  # predicted says where it is

WITHOUT = {"blind": "--schedule workqueue --hints none", "default": ""}


def scaled(name, arguments, home):
    """An instance with sizes and run times that fit slow links."""
    document = workflows.document_of(name)
    factors = workflows.Instance(name, document, arguments, home)
    for file in document["workflow"]["specification"]["files"]:
        file["sizeInBytes"] = max(1, round(file["sizeInBytes"] * factors.scale)) if file["sizeInBytes"] else 0
    for task in document["workflow"]["execution"]["tasks"]:
        task["runtimeInSeconds"] *= factors.time_scale
    path = home / f"{name}-scaled.json"
    path.write_text(json.dumps(document))
    return workflows.Replay(name, path, factors.tasks)


def runs(arguments, instance, ways, options):
    """What runs of each way took on a store that is new, by way."""
    kind = type("Store", (labs.Intarsia,), {"options": options})
    found = {way: [] for way in ways}
    with kind(arguments.program, arguments.hosts, arguments.link, arguments.work) as system:
        runner = workflows.Runner(system, "intarsia")
        for number in range(arguments.repeat):
            for way, words in ways.items():
                sample = runner.run(instance, words)
                found[way].append(sample)
                print(f"round {number + 1}: {way}: {sample['makespan_s']:.2f} s, {sample['network_bytes'] / 1e6:.0f} MB, busy {sample['busy']:.0%}", file=sys.stderr)
    return found


def seeded(arguments):
    """The profile of a store."""
    with labs.Intarsia(arguments.program, arguments.hosts, arguments.link, arguments.work) as system:
        words = ["--remote", system.mount(2), "--hosts", arguments.hosts, "--slots", 1, "--seconds", arguments.seconds, "--quiet"]
        return json.loads(predicted.called(arguments.program, "seed", system.mount(1), *words))


def advised(arguments, instance, profile, home):
    """Ask for an advice; where it lies."""
    (home / "profile.json").write_text(json.dumps(profile))
    words = ["advise", instance.file, "--profile", home / "profile.json", "--runs", 3, "--storage-hosts", "all"]
    print(predicted.called(arguments.program, *words, "--top", 5))
    (home / "advice.json").write_text(predicted.called(arguments.program, *words, "--json"))
    return home / "advice.json"


def main():
    """Follow, and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--instance", default="montage", help="of bench/instances (%(default)s)")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--link", default="100mbit", help="rate of each link (%(default)s)")
    parser.add_argument("--mb", type=int, default=150, help="that tasks read, of each file once a host (%(default)s)")
    parser.add_argument("--compute-s", type=float, default=4.0, help="of computation of all tasks together (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of seeding (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    arguments = parser.parse_args()
    labs.end_on_signals()
    with tempfile.TemporaryDirectory(prefix="bench-followed-") as place:
        home = Path(place)
        instance = scaled(arguments.instance, arguments, home)
        profile = seeded(arguments)
        found = runs(arguments, instance, WITHOUT, ())
        profile, _ = with_engine(profile, [found["default"][0]["engine"]])
        advice = advised(arguments, instance, profile, home)
        found |= runs(arguments, instance, {"advised": f"--advice {advice}"}, ("--advice", str(advice)))
        print(f"commit {kept.commit()}, {arguments.hosts} hosts, links {arguments.link}, n = {arguments.repeat}, load {os.getloadavg()[0]:.1f}")
        foretold = json.loads(advice.read_text())
        best = foretold["points"][foretold["best"]]
        print(f"foretold for the advised: {best['seconds']:.2f} s, half of its 95 % interval {best['half_width_seconds']:.2f} s; {best['configuration']}")
        took = statistics.median(one["makespan_s"] for one in found["advised"])
        for way, samples in found.items():
            times = [one["makespan_s"] for one in samples]
            local = statistics.median(one["local_share"] for one in samples)
            saved = 1 - took / statistics.median(times)
            print(f"{way:8} {statistics.median(times):6.2f} s ({min(times):.2f} to {max(times):.2f}), {local:.0%} read where the task ran; advised takes {saved:.0%} less")


if __name__ == "__main__":
    main()
