#!/usr/bin/env python3
"""Measures what names cost in a directory that several hosts of a lab use and change.

  open        the first host opens, reads and closes each of some small files, which nobody changes
  1, 2 others the same, after one or two other hosts have made a new file in the directory
  alone       one host makes files, of 200 bytes each
  in turn     all hosts do, one after the other
  at once     all hosts do, at the same time

Each system has a lab of its own, and they take turns: `intarsia`, `strict` (its hosts ask the metadata servers for every name),
`before` (the program of --before, such as an older build), and `native`, a directory of this machine: the limit. What is printed is the
time of an open with its read and close, or of making, writing and closing a file: the median over the rounds of medians, least and
most, and how many times that of `intarsia` it is.

example:
  bench/shared_names.py --quick
  bench/shared_names.py --repeat 5 --before ~/older/intarsia
"""

import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import command_line
import kept
import labs

FILES = 12
LOOKS, CREATES = 15, 60
CONTENT = bytes(3000)


SYSTEMS = {"intarsia": labs.Intarsia, "strict": labs.Strict, "before": labs.Intarsia, "native": labs.Native}


def look(path):
    """Seconds that a file takes to be opened, read and closed."""
    began = time.perf_counter()
    file = os.open(path, os.O_RDONLY)
    while os.read(file, 1 << 20):
        pass
    os.close(file)
    return time.perf_counter() - began


def make(path):
    """Seconds that a new file takes to be made, written and closed."""
    began = time.perf_counter()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.write(file, CONTENT[:200])
    os.close(file)
    return time.perf_counter() - began


def measure(system, number):
    """Median milliseconds of each row."""
    seen = [system.mount(host) / f"names{number}" for host in system.numbers()]
    seen[0].mkdir()
    for name in range(FILES):
        (seen[name % len(seen)] / f"in{name}").write_bytes(CONTENT)
    rows = {}
    for others, row in enumerate(("open", "open, 1 other", "open, 2 others")):
        times = []
        for turn in range(LOOKS):
            for host in seen[1 : 1 + others]:
                make(host / f"{others}-{turn}-{host.parent.name}")
            times += [look(seen[0] / f"in{name}") for name in range(FILES)]
        rows[row] = times
    rows["create, alone"] = [make(seen[0] / f"own{at}") for at in range(CREATES)]
    rows["create, in turn"] = [make(seen[at % len(seen)] / f"turn{at}") for at in range(CREATES)]
    with ThreadPoolExecutor(len(seen)) as pool:
        made = pool.map(lambda host: [make(host / f"once-{host.name}-{host.parent.name}-{at}") for at in range(CREATES)], seen)
        rows["create, at once"] = [time for times in made for time in times]
    return {row: 1000 * statistics.median(times) for row, times in rows.items()}


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--systems", help=f"of {', '.join(SYSTEMS)} (all, `before` only with --before)")
    parser.add_argument("--hosts", type=int, default=3, help="at least 3 (%(default)s)")
    parser.add_argument("--link", help="rate of each link, such as 1gbit (unshaped)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--before", help="another build of intarsia")
    arguments = parser.parse_args()
    names = arguments.systems.split(",") if arguments.systems else [name for name in SYSTEMS if name != "before" or arguments.before]
    if unknown := set(names) - SYSTEMS.keys():
        parser.error(f"unknown system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    if arguments.hosts < 3 or ("before" in names and not arguments.before):
        parser.error("this needs 3 hosts, and --before for `before`")
    labs.end_on_signals()
    found = {name: [] for name in names}
    busy = []
    for number, name in labs.in_turn(names, 1 if arguments.quick else arguments.repeat):
        program = arguments.before if name == "before" else arguments.program
        with SYSTEMS[name](program, arguments.hosts, arguments.link, arguments.work) as system:
            measure(system, "warm")
            begun = kept.busy_s()
            found[name].append(measure(system, number))
            busy.append(kept.busy_share(begun))
    print(f"commit {kept.commit()}, {arguments.hosts} hosts, {len(busy)} rounds in all, processors busy {min(busy):.0%} to {max(busy):.0%}")
    report(found)


def report(found):
    """Print a table, a row for each kind of work."""
    first = next(iter(found))
    print(f"{'ms':18}" + "".join(f"{name:>28}" for name in found))
    for row in found[first][0]:
        of = {name: sorted(one[row] for one in rounds) for name, rounds in found.items()}
        base = statistics.median(of[first])
        cells = (f"{(m := statistics.median(v)):.2f} ({v[0]:.2f}-{v[-1]:.2f}) {m / base:.1f}x" for v in of.values())
        print(f"{row:18}" + "".join(f"{cell:>28}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
