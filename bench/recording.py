#!/usr/bin/env python3
"""Measures what recording operations costs: the same work in one store with and without, in turns.

Each round does an action without recording, with coarse and with fine recording, in an order of
chance, in a new directory of the same store. Printed are medians, and the ratio to the round's own
time without recording with a 95 % interval over the rounds.

example:
  bench/recording.py
  bench/recording.py --rounds 30 --actions small,processes
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import command_line

DETAILS = ("off", "coarse", "fine")
SMALL_FILES, SMALL = 600, b"x" * 2048
LARGE_FILES, LARGE = 4, b"x" * (32 << 20)
PROCESSES = 60


def small(folder):
    """Creates, reads and removes small files."""
    for number in range(SMALL_FILES):
        (folder / str(number)).write_bytes(SMALL)
    for number in range(SMALL_FILES):
        (folder / str(number)).read_bytes()
    for number in range(SMALL_FILES):
        (folder / str(number)).unlink()


def large(folder):
    """Writes and reads large files, in pieces of 1 MiB."""
    for number in range(LARGE_FILES):
        with open(folder / str(number), "wb", buffering=0) as file:
            for at in range(0, len(LARGE), 1 << 20):
                file.write(LARGE[at : at + (1 << 20)])
    for number in range(LARGE_FILES):
        with open(folder / str(number), "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def processes(folder):
    """Short processes that each copy a file, as in a workflow."""
    (folder / "in").write_bytes(b"x" * (256 << 10))
    for number in range(PROCESSES):
        subprocess.run(["cp", folder / "in", folder / str(number)], check=True)


ACTIONS = {"small": small, "large": large, "processes": processes}


def intarsia(binary, *words):
    done = subprocess.run([binary, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"recording.py: intarsia {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def switch(binary, mount, detail):
    verb = ["stop", mount] if detail == "off" else ["start", mount, "--detail", detail]
    intarsia(binary, "record", *verb)


def measure(binary, mount, rounds, actions):
    """Seconds by action and detail, one for each round."""
    took = {action: {detail: [] for detail in DETAILS} for action in actions}
    for number in range(rounds + 1):
        for action in actions:
            for detail in random.sample(DETAILS, len(DETAILS)):
                folder = Path(mount) / f"{number}-{action}-{detail}"
                folder.mkdir()
                switch(binary, mount, detail)
                began = time.perf_counter()
                ACTIONS[action](folder)
                seconds = time.perf_counter() - began
                switch(binary, mount, "off")
                shutil.rmtree(folder)
                if number:  # the first round warms up
                    took[action][detail].append(seconds)
    return took


def interval(ratios):
    """The median, and its 95 % interval by order statistics."""
    ordered, n = sorted(ratios), len(ratios)
    half = 0.98 * n**0.5
    low, high = max(0, int(n / 2 - half)), min(n - 1, int(n / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def main():
    parser = command_line.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="n of each figure [15]")
    parser.add_argument("--actions", default=",".join(ACTIONS), help="which of them")
    parser.add_argument("--binary", default="target/release/intarsia", help="the program")
    parser.add_argument("--json", metavar="FILE", help="write all times")
    given = parser.parse_args()
    actions = given.actions.split(",")
    binary = str(Path(given.binary).resolve())
    with tempfile.TemporaryDirectory(prefix="recording-", dir="/dev/shm") as scratch:
        mount = f"{scratch}/mnt"
        intarsia(binary, "up", mount, "--dir", f"{scratch}/store", "--tier", f"{scratch}/tier")
        try:
            took = measure(binary, mount, given.rounds, actions)
        finally:
            subprocess.run([binary, "down", mount, "--purge", "--force"], capture_output=True)
    print(f"n = {given.rounds}, load {os.getloadavg()[0]:.1f}")
    print(f"{'action':12}{'detail':8}{'median s':>10}{'ratio':>8}{'95 %':>16}")
    for action, by_detail in took.items():
        for detail, seconds in by_detail.items():
            ratios = [one / off for one, off in zip(seconds, by_detail["off"], strict=True)]
            middle, low, high = interval(ratios)
            spread = "" if detail == "off" else f"{low:.3f} to {high:.3f}"
            print(
                f"{action:12}{detail:8}{statistics.median(seconds):10.4f}{middle:8.3f}{spread:>16}"
            )
    if given.json:
        Path(given.json).write_text(json.dumps(took, indent=1))


if __name__ == "__main__":
    main()
