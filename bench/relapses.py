#!/usr/bin/env python3
"""Measures what bugs cost, brought back, over the hosts of a lab: the three that a predictor found in MosaStore, and one of ours.

Costa (PhD thesis, University of British Columbia, 2014, figure 4.2) mended a constant order of hosts, a coarse lock and
late connections; pipelines and reductions then took up to 30 % less, with a tenth of the variance. Here the same workflows
run over striped files, as there, with none of the bugs, each alone, and all. Each measurement has a store of its own, since
a late connection is late once. What a relapse costs is set in `crates/sync/src/relapse.rs` (20 ms in a lock, 3 s for a
connection), so the sizes tell of these numbers as well; that mending saves time and variance is the finding.

Ours is `far-control`: connections were controlled as the system is set, and some systems are set to BBR, which is made for
far networks. Of the queue before a reader with many senders that loses a lot. Without BBR in the kernel it changes nothing.

A run goes on where it was interrupted: every measurement is a line in the file of `--out`.

example:
  bench/relapses.py --repeat 1
  bench/relapses.py --states mended,far-control --patterns broadcast,reduce --link 50mbit --chunk 64KiB --mb 2
  bench/relapses.py --hosts 4 --mb 8 --repeat 8 --out results/relapses.jsonl
"""

import os
import statistics
import tempfile

import command_line
import kept
import labs
import patterns

BUGS = ("constant-order", "coarse-lock", "late-connection")
MOSASTORE = ("mended", *BUGS, "all three")
STATES = {"mended": (), **{bug: (bug,) for bug in BUGS}, "all three": BUGS, "far-control": ("far-control",)}
PATTERNS = {"pipeline": patterns.pipeline, "reduce": patterns.reduce, "broadcast": patterns.broadcast}


def measure(arguments, state, pattern):
    """Seconds of a pattern on a store that is new and has the bugs of a state."""
    with tempfile.NamedTemporaryFile("w", prefix="relapse-", suffix=".txt") as switch:
        os.environ["INTARSIA_RELAPSE"] = switch.name
        try:
            with labs.Intarsia(arguments.program, arguments.hosts, arguments.link, arguments.work) as system:
                switch.write("\n".join(STATES[state]))
                switch.flush()
                place = patterns.Place(system, "intarsia", "striped")
                directory = place.at(place.workers[0])
                os.setxattr(directory, "user.intarsia.place", f"stripe:{arguments.hosts}".encode())
                os.setxattr(directory, "user.intarsia.chunk", arguments.chunk.encode())
                before = kept.busy_s()
                seconds = PATTERNS[pattern](place, arguments.mb * 1_000_000)
                return {"seconds": seconds, "busy": kept.busy_share(before)}
        finally:
            del os.environ["INTARSIA_RELAPSE"]


def told(found, settings):
    """A table: mean, deviation, what mending saves of the time, and the ratio of the variances."""
    mine = kept.those(found, settings)
    print(f"{settings}, commit {kept.commit()}")
    for pattern in PATTERNS:
        times = {
            state: [one["seconds"] for one in mine if (one["pattern"], one["state"]) == (pattern, state)]
            for state in STATES
        }
        mended = times["mended"]
        for state, those in times.items():
            if not those:
                continue
            line = f"  {pattern:9} {state:16} mean {statistics.mean(those):6.2f} s, n = {len(those)}"
            line += f", {min(those):.2f} to {max(those):.2f}"
            if len(those) > 1 and len(mended) > 1:
                line += f", deviation {statistics.stdev(those):.2f} s"
                saved = 1 - statistics.mean(mended) / statistics.mean(those)
                line += f", mended saves {saved:.0%}, variance {statistics.variance(those) / statistics.variance(mended):.1f} times"
            print(line)


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--states", default=",".join(MOSASTORE), help=f"of {','.join(STATES)} (%(default)s)")
    parser.add_argument("--patterns", default="pipeline,reduce", help=f"of {','.join(PATTERNS)} (%(default)s)")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--mb", type=int, default=8, help="of each file of a pipeline, of all of a reduction (%(default)s)")
    parser.add_argument("--chunk", default="1MiB", help="of the stripes (%(default)s)")
    parser.add_argument("--link", default="200mbit", help="rate of each link (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--out", help="a file that keeps every measurement, a line each")
    arguments = parser.parse_args()
    states = arguments.states.split(",")
    if unknown := [state for state in states if state not in STATES]:
        parser.error(f"'{unknown[0]}' is none of {','.join(STATES)}")
    labs.end_on_signals()
    labs.Intarsia.check(arguments.program)
    settings = {name: getattr(arguments, name) for name in ("hosts", "mb", "chunk", "link")}
    found = kept.remembered(arguments.out)
    cases = [(pattern, state) for pattern in arguments.patterns.split(",") for state in states]
    for number, (pattern, state) in labs.in_turn(cases, arguments.repeat):
        key = {**settings, "pattern": pattern, "state": state, "round": number}
        if kept.holds(found, key):
            continue
        measured = measure(arguments, state, pattern)
        kept.keep(found, key | measured | {"load": os.getloadavg()[0], "commit": kept.commit()}, arguments.out)
    told(found, settings)


if __name__ == "__main__":
    main()
