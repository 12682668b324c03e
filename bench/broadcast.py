#!/usr/bin/env python3
"""Measures how long one file takes to many readers, over the hosts of a lab, each with a link of its own.

A host writes a file; then so many other hosts read it at the same time, from the opening of the first to the close of the
last. With `spread` the file has the hint `pattern=broadcast`: its readers take pieces from each other. `plain` has no
hint: all read it from its home. `copies=N` has `replicas=N` and `close=safe`: a close waits for N copies, which is told as
the time to write, and the readers take theirs from these. Each reader checks what it read by its length.

A run goes on where it was interrupted: every measurement is a line in the file of `--out`.

example:
  bench/broadcast.py --quick
  bench/broadcast.py --hosts 20 --mb 20 --link 100mbit --readers 1,2,4,8,19 --repeat 5 --out results/broadcast.jsonl
"""

import os
import statistics
import time

import command_line
import kept
import labs
import patterns
import touched

WAYS = "plain,spread,copies=2,copies=4,copies=8"
HINTS = {"plain": {}, "spread": {"pattern": "broadcast"}}


def hints_of(way):
    """The hints of a way, by their names."""
    if way.startswith("copies=") and way[7:].isdigit():
        return {"replicas": way[7:], "close": "safe"}
    return HINTS[way]


def measure(system, way, readers, size, name):
    """Seconds to write a file on the first host and to read it on others, and how busy the processors were meanwhile."""
    directory = system.mount(1) / name
    directory.mkdir()
    for key, value in hints_of(way).items():
        os.setxattr(directory, f"user.intarsia.{key}", value.encode())
    touched.MEMORY.touch()
    begun = time.perf_counter()
    patterns.write(directory / "file", size)
    written_s = time.perf_counter() - begun
    before = kept.busy_s()
    paths = [system.mount(host) / name / "file" for host in range(2, readers + 2)]
    read_s = patterns.at_once([lambda path=path: patterns.read(path, size=size) for path in paths])
    busy = kept.busy_share(before)
    (directory / "file").unlink()
    return {"write_s": written_s, "read_s": read_s, "busy": busy}


def told(found, settings):
    """A table: how long reading took, and writing where that waits, for each way and number of readers."""
    mine = kept.those(found, settings)
    print(f"{settings['mb']} MB over links of {settings['link']}, commit {kept.commit()}; seconds, median (least - most), n; busy CPU")
    for way in dict.fromkeys(one["way"] for one in mine):
        print(f"\n{way}")
        for readers in sorted({one["readers"] for one in mine if one["way"] == way}):
            those = [one for one in mine if (one["way"], one["readers"]) == (way, readers)]
            times = [one["read_s"] for one in those]
            busy = statistics.median(one["busy"] for one in those)
            spread = f"({min(times):.2f} - {max(times):.2f}), {len(times)}"
            written = statistics.median(one["write_s"] for one in those)
            print(
                f"  {readers:3} readers {statistics.median(times):7.2f} {spread:22} written in {written:5.2f}   busy {busy:4.0%}"
            )


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--ways", default=WAYS, help="of plain, spread, copies=N (%(default)s)")
    parser.add_argument("--readers", default="1,2,4,8,19", help="how many at once (%(default)s)")
    parser.add_argument("--hosts", type=int, default=20, help="one more than the most readers (%(default)s)")
    parser.add_argument("--mb", type=int, default=20, help="length of the file in MB (%(default)s)")
    parser.add_argument("--link", default="100mbit", help="rate of each link (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="four hosts, once")
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--out", help="a file that keeps every measurement, a line each")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.hosts, arguments.repeat, arguments.readers = 4, 1, "1,3"
    ways = arguments.ways.split(",")
    readers = [int(number) for number in arguments.readers.split(",")]
    for way in ways:
        if way not in HINTS and not (way.startswith("copies=") and way[7:].isdigit()):
            parser.error(f"'{way}' is none of {WAYS}")
    if max(readers) >= arguments.hosts:
        parser.error(f"--hosts {arguments.hosts}: {max(readers)} readers and the writer need more")
    labs.end_on_signals()
    labs.Intarsia.check(arguments.program)
    settings = {"mb": arguments.mb, "link": arguments.link}
    found = kept.remembered(arguments.out)
    cases = [(way, count) for count in readers for way in ways]
    with labs.Intarsia(arguments.program, arguments.hosts, arguments.link, arguments.work) as system:
        for number, (way, count) in labs.in_turn(cases, arguments.repeat):
            key = {**settings, "way": way, "readers": count, "round": number}
            if kept.holds(found, key):
                continue
            case = f"{way.replace('=', '-')}-{count}-{number}-{os.getpid()}"
            measured = measure(system, way, count, arguments.mb * 1_000_000, case)
            kept.keep(found, key | measured | {"load": os.getloadavg()[0], "commit": kept.commit()}, arguments.out)
    told(found, settings)


if __name__ == "__main__":
    main()
