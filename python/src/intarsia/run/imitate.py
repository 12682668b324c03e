"""What a replayed task runs, by itself: reads files whole, computes or sleeps, writes files.

It reads what to do from standard input as JSON, says how long that took, and imports little: it is
started for every task, and half of what `python -I -S` takes with `json` is what that imports.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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


def parsed(text: str) -> "Any":
    """Return what a JSON text says, by what `json` itself parses with if this Python has that."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    return make_scanner(_Usual())(text, 0)[0]  # type: ignore[arg-type]


class _Usual:
    """How JSON is understood, as by `json.loads`."""

    def __init__(self) -> None:
        self.strict = True
        self.object_hook = self.object_pairs_hook = None
        self.parse_float, self.parse_int, self.parse_constant = float, int, float
        self.memo: dict[str, str] = {}


def main() -> None:
    """Do what standard input says."""
    began_s = time.monotonic()
    order = parsed(sys.stdin.read())
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
