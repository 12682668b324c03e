#!/usr/bin/env python3
"""Measures what the links of a lab deliver: TCP over many pairs of nodes at once, against the rate they were given.

Each repetition makes a lab, sends over all pairs for a fixed time from a common start, and takes it down. The limit
that a rate allows is the share of it that is payload: 1448 of 1514 bytes in every full frame (Ethernet, IPv4, TCP with
time stamps). Processor use is of the whole machine over the same time, whoever caused it. Above 80 % a figure below the
limit is that of the machine, not of the links.

example:
  bench/lab.py --rates 100mbit,1gbit --pairs 1,10 --repeat 5
  INTARSIA=target/release/intarsia bench/lab.py --out results/lab.json
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import kept

PAYLOAD_SHARE = 1448 / 1514
UNITS = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3}
PORT = 7010
WARM_UP_S = 0.5
GRACE_S = 30

# Both run with one clock, so that all count the same seconds. What is in flight before and after is not counted.
RECEIVER = """
import socket, sys, time
start, end = float(sys.argv[1]), float(sys.argv[2])
listener = socket.create_server(("0.0.0.0", int(sys.argv[3])))
listener.settimeout(end - time.monotonic())
connection, _ = listener.accept()
connection.settimeout(1)
buffer, count = bytearray(1 << 20), 0
while (now := time.monotonic()) < end:
    try:
        received = connection.recv_into(buffer)
    except TimeoutError:
        continue
    if now >= start:
        count += received
print(count)
"""
SENDER = """
import socket, sys, time
end, deadline = float(sys.argv[1]), time.monotonic() + 5
while True:
    try:
        connection = socket.create_connection((sys.argv[2], int(sys.argv[3])), 1)
        break
    except OSError:
        if time.monotonic() > deadline: raise
        time.sleep(0.05)
block = memoryview(bytes(1 << 20))
connection.settimeout(1)
try:
    while time.monotonic() < end: connection.sendall(block)
except OSError:
    pass
"""


def bit_per_s(rate):
    """Reads a rate as `intarsia lab up --link` does; None is unlimited."""
    if rate == "unlimited":
        return None
    for unit, factor in UNITS.items():
        if rate.endswith(unit):
            return float(rate.removesuffix(unit)) * factor
    sys.exit(f"lab.py: '{rate}' is no rate; write 100mbit, 1gbit or unlimited")


class Lab:
    """A lab of one repetition, removed at the end whatever happens."""

    def __init__(self, program, nodes, rate):
        self.program = program
        self.name = f"bench-{os.getpid()}"
        link = [] if rate == "unlimited" else ["--link", rate]
        before = time.monotonic()
        answer = self.run("up", self.name, "--nodes", str(nodes), *link, "--json")
        self.up_s = time.monotonic() - before
        self.addresses = [node["address"] for node in json.loads(answer)["nodes"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run("down", self.name, "--kill")

    def run(self, *arguments):
        command = [self.program, "lab", *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def start(self, node, script, *arguments):
        command = [self.program, "lab", "exec", "--lab", self.name, f"n{node}", "--"]
        command += [sys.executable, "-c", script, *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE)


def measure(program, rate, pairs, seconds):
    """One repetition: bytes per second of each pair, and the machine's processor use."""
    with Lab(program, 2 * pairs, rate) as lab:
        start = time.monotonic() + 1 + 0.1 * pairs + WARM_UP_S
        end = start + seconds
        receivers, senders = [], []
        for pair in range(pairs):
            to = 2 * pair + 2
            receivers.append(lab.start(to, RECEIVER, start, end, PORT))
            senders.append(lab.start(to - 1, SENDER, end, lab.addresses[to - 1], PORT))
        time.sleep(max(0, start - time.monotonic()))
        before = kept.busy_s()
        time.sleep(max(0, end - time.monotonic()))
        cpu_share = kept.busy_share(before)
        counts = [int(r.communicate(timeout=GRACE_S)[0]) for r in receivers]
        for sender in senders:
            sender.communicate(timeout=GRACE_S)
    return {
        "rate": rate,
        "pairs": pairs,
        "up_s": lab.up_s,
        "bytes_per_s": [count / seconds for count in counts],
        "cpu_share": cpu_share,
    }


def summary(samples):
    """One line of the table: medians over the repetitions, of the mean pair and of the worst."""
    limit = bit_per_s(samples[0]["rate"])
    means = [statistics.fmean(s["bytes_per_s"]) for s in samples]
    worst = [min(s["bytes_per_s"]) for s in samples]
    share = f"{statistics.median(means) * 8 / limit / PAYLOAD_SHARE:6.3f}" if limit else "     -"
    least = f"{statistics.median(worst) * 8 / limit / PAYLOAD_SHARE:6.3f}" if limit else "     -"
    cpu = statistics.median(s["cpu_share"] for s in samples)
    note = "  (processors above 80 %)" if cpu > 0.8 else ""
    return (
        f"{samples[0]['rate']:>9} {samples[0]['pairs']:5} {len(samples):3} "
        f"{statistics.median(means) / 1e6:9.1f} {min(means) / 1e6:9.1f} {max(means) / 1e6:9.1f} "
        f"{share} {least} {100 * cpu:5.0f} {statistics.median(s['up_s'] for s in samples):6.2f}{note}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="100mbit,1gbit,unlimited", help="rates of the links")
    parser.add_argument("--pairs", default="1,10", help="pairs of nodes that send at once")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long bytes are counted")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions")
    parser.add_argument("--out", type=Path, help="write all samples here, as JSON")
    arguments = parser.parse_args()
    program = os.environ.get("INTARSIA", "target/release/intarsia")
    if os.geteuid() != 0:
        sys.exit("lab.py: a lab needs root")
    if not Path(program).exists():
        sys.exit(f"lab.py: {program} is missing; build it, or name it in INTARSIA")
    cells = [(rate, int(pairs)) for rate in arguments.rates.split(",") for pairs in arguments.pairs.split(",")]
    for rate, _ in cells:
        bit_per_s(rate)
    samples = {cell: [] for cell in cells}
    for _ in range(arguments.repeat):
        # In turns, so that what else the machine does meets all alike.
        for rate, pairs in cells:
            samples[rate, pairs].append(measure(program, rate, pairs, arguments.seconds))
    print("     rate pairs   n  MB/s med       min       max  /limit worst  CPU%   up s")
    for cell in cells:
        print(summary(samples[cell]))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps([s for cell in cells for s in samples[cell]], indent=1) + "\n")


if __name__ == "__main__":
    main()
