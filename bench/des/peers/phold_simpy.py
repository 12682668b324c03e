"""Self-scheduling entities on SimPy, in its usual form: a process for each entity.

Each waits an exponential time with a mean of one second, over and over. With `empty` one process
waits one second each time.
"""

import argparse
import json
import random
import resource
import time
from pathlib import Path

import simpy

WARM_UP_S = 3


def entity(env, visits, number, delay):
    while True:
        yield env.timeout(delay())
        visits[number] += 1


def resident_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=("empty", "phold"), required=True)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--events", type=int, default=500_000)
    arguments = parser.parse_args()
    before_bytes = resident_bytes()
    generator = random.Random(1)
    delay = (lambda: 1.0) if arguments.workload == "empty" else (lambda: generator.expovariate(1.0))
    env = simpy.Environment()
    visits = [0] * arguments.size
    for number in range(arguments.size):
        env.process(entity(env, visits, number, delay))
    env.run(until=WARM_UP_S)
    warm_events = sum(visits)
    start, cpu_start = time.perf_counter(), time.process_time()
    env.run(until=WARM_UP_S + arguments.events / arguments.size)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    measurement = {
        "events": sum(visits) - warm_events,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "bytes_per_pending": (peak_bytes - before_bytes) / arguments.size,
    }
    print(json.dumps(measurement))


main()
