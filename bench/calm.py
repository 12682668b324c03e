"""Whether this machine is as fast as it was: a virtual machine shares its host with others, and a run beside them tells of them."""

import concurrent.futures
import multiprocessing
import os
import time

#: How many times as long as at best the same work takes on a machine that is disturbed.
DISTURBED = 1.3
#: How long a run waits for calm, and how often one that was disturbed is done again.
WAITS_S, AGAIN = 60.0, 2
LOOPS = 40


class Calm:
    """Looks whether others disturb this machine, by how long the same work takes on all processors at once."""

    def __init__(self):
        self.count = len(os.sched_getaffinity(0))
        self.pool = concurrent.futures.ProcessPoolExecutor(self.count, multiprocessing.get_context("fork"))
        self.best_s = float("inf")

    def __enter__(self):
        for _ in range(3):
            self.look()
        return self

    def __exit__(self, *_):
        self.pool.shutdown()

    def look(self):
        """How many times as long as at best it takes now."""
        took_s = max(self.pool.map(work, [LOOPS] * self.count))
        self.best_s = min(self.best_s, took_s)
        return took_s / self.best_s

    def wait(self):
        """Wait until the machine is calm, but not for ever; how many times as long work takes then."""
        deadline = time.monotonic() + WAITS_S
        while (slower := self.look()) > DISTURBED and time.monotonic() < deadline:
            time.sleep(1.0)
        return slower

    def measured(self, run):
        """What `run` gives of itself, as a dictionary: again where the machine was disturbed at the begin or the end, and all of them."""
        for number in range(1 + AGAIN):
            before = self.wait()
            found = run()
            slower = max(before, self.look())
            yield found | {"slower": round(slower, 3), "disturbed": slower > DISTURBED}
            if slower <= DISTURBED:
                return


def work(loops):
    """Seconds of the same work."""
    begun = time.perf_counter()
    for _ in range(loops):
        sum(range(60_000))
    return time.perf_counter() - begun
