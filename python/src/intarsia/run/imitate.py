"""What a replayed task runs, by itself: reads files whole, computes or sleeps, writes files.

It reads what to do from standard input as JSON, says how long that took, and imports little: it is
started for every task.
"""

import json
import os
import sys
import time

PIECE = 1 << 20
#: Before the seconds that it took, on the last line of what it prints.
TOOK = "did all in seconds: "


def read(path: str) -> None:
    """Read a file whole."""
    with open(path, "rb", buffering=0) as file:
        while file.read(PIECE):
            pass


def compute(seconds: float, burns: bool) -> None:
    """Take so long, with a core kept busy or not."""
    if not burns:
        time.sleep(seconds)
        return
    began = time.process_time()
    while time.process_time() - began < seconds:
        sum(range(10_000))


def write(path: str, size_bytes: int, piece: bytes) -> None:
    """Write a file of so many bytes: `piece`, again and again."""
    with open(path, "wb", buffering=0) as file:
        left = size_bytes
        while left > 0:
            left -= file.write(piece[: min(left, PIECE)])


def main() -> None:
    """Do what standard input says."""
    began_s = time.monotonic()
    order = json.load(sys.stdin)
    for path in order["reads"]:
        read(path)
    compute(order["seconds"], order["burns"])
    piece = os.urandom(min(PIECE, max(order["writes"].values(), default=0)))
    for path, size_bytes in order["writes"].items():
        write(path, size_bytes, piece)
    print(f"{TOOK}{time.monotonic() - began_s:.9f}")


def imitated_s(log: str) -> float | None:
    """Seconds that the program said in its log; None where it did not come to that."""
    try:
        with open(log, "rb") as lines:
            lines.seek(max(0, lines.seek(0, os.SEEK_END) - PIECE))
            *_, last = lines.read().decode(errors="replace").splitlines() or [""]
        return float(last.removeprefix(TOOK)) if last.startswith(TOOK) else None
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    main()
