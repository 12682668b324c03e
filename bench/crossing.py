#!/usr/bin/env python3
"""Measures what of its rate a link carries while files come from one host or several, and while data goes one way or both.

Each host of a lab with shaped links has files of its own. Either one host reads of so many others at once, or every host does, so that
data crosses each link both ways. A host reads as many bytes in all cases. What is printed is the time of the last reader, and the share
of the rate that its link carried.

example:
  bench/crossing.py --repeat 2
  bench/crossing.py --hosts 4 --link 100mbit --mb 4 --repeat 7
"""

import os
import statistics
import subprocess
import sys

import command_line
import kept
import lab
import labs

#: A reader opens its file when it is told to, so that all begin at once.
READER = """
import os, sys, time
os.write(1, b".")
os.read(0, 1)
began = time.time()
file = os.open(sys.argv[1], os.O_RDONLY)
while os.read(file, 1 << 20):
    pass
print(began, time.time())
"""


def seconds(paths):
    """From the first opening of these files, all read at once, to the last byte."""
    command = [sys.executable, "-I", "-c", READER]
    readers = [subprocess.Popen([*command, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for path in paths]
    for reader in readers:
        reader.stdout.read(1)
    for reader in readers:
        reader.stdin.write(b".")
        reader.stdin.flush()
    times = [list(map(float, reader.communicate()[0].split())) for reader in readers]
    return max(end for _, end in times) - min(began for began, _ in times)


def measure(system, readers, senders, arguments, number):
    """Each of `readers` hosts reads files of `senders` others, each as long."""
    mounts, paths = [system.mount(host) for host in system.numbers()], []
    size = round(arguments.mb * 1e6 / senders)
    for reader in range(readers):
        for step in range(1, senders + 1):
            name = f"{number}-{readers}-{senders}-{reader}-{step}"
            with open(mounts[(reader + step) % len(mounts)] / name, "wb") as file:
                file.write(os.urandom(size))
            paths.append(str(mounts[reader] / name))
    before = kept.busy_s()
    took = seconds(paths)
    return {"seconds": took, "busy": kept.busy_share(before)}


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--link", default="100mbit", help="rate of each link (%(default)s)")
    parser.add_argument("--mb", type=float, default=4, help="that each reader gets (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--work", default="/dev/shm", help="where all data lies")
    parser.add_argument("--program", default=str(labs.PROGRAM))
    parser.add_argument("--out", help="a file that keeps every measurement, a line each")
    arguments = parser.parse_args()
    labs.end_on_signals()
    labs.Intarsia.check(arguments.program)
    settings = {name: getattr(arguments, name) for name in ("hosts", "link", "mb")}
    found = kept.remembered(arguments.out)
    cases = [(readers, senders) for readers in (1, arguments.hosts) for senders in range(1, arguments.hosts)]
    with labs.Intarsia(arguments.program, arguments.hosts, arguments.link, arguments.work) as system:
        for number, (readers, senders) in labs.in_turn(cases, arguments.repeat):
            key = {**settings, "readers": readers, "senders": senders, "round": number}
            if not kept.holds(found, key):
                made = measure(system, readers, senders, arguments, number)
                kept.keep(found, key | made | {"load": os.getloadavg()[0], "commit": kept.commit()}, arguments.out)
    least_s = arguments.mb * 8e6 / lab.bit_per_s(arguments.link)
    print(f"{settings}, commit {kept.commit()}: share of the rate, by who reads and from how many others each")
    for readers, senders in cases:
        runs = kept.those(found, {**settings, "readers": readers, "senders": senders})
        times = [one["seconds"] for one in runs]
        busy = statistics.median(one["busy"] for one in runs)
        line = f"  {readers} readers, {senders} senders each: {least_s / statistics.median(times):.2f}, {statistics.median(times):.3f} s"
        print(f"{line}, n = {len(times)}, {min(times):.3f} to {max(times):.3f}, processors busy {busy:.0%}")


if __name__ == "__main__":
    main()
