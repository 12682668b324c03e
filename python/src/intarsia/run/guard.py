"""A process beside each worker that outlives it, to end what the worker leaves behind.

It reads lines from the worker: `+N` for a process group that has begun, `-N` for one that has
ended. When the worker goes, in whatever way, the pipe ends, and what is left is killed, or gets the
signal that is named. Run by itself: `python -I -S guard.py [SIGNAL]`.
"""

import os
import signal
import sys


def main() -> None:
    """Listen until the worker is gone, then end what it has left."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    last = signal.Signals[sys.argv[1]] if len(sys.argv) > 1 else signal.SIGKILL
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        try:
            os.killpg(group, last)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
