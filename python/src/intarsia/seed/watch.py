"""Times of system calls, in seconds, by name.

A call for much of which another program took the processor away tells of that program: it is left
out, unless `keeps_disturbed` is set. `disturbed` has a 1 for each of these, a 0 for each other.
"""

import resource
import time

Times = dict[str, list[float]]

keeps_disturbed = False
#: A call is disturbed if its thread waited for a processor for such a share of it. A mere switch
#: is none: long calls meet more of these, and to leave them out would leave the short ones.
_DISTURBING = 0.05


class Watch:
    """Collects times by name."""

    def __init__(self) -> None:
        self._times: Times = {}
        self._disturbed: Times = {}
        self._flags: list[float] = []
        self._switches = 0
        self._waited_ns: int | None = None
        self._began = 0.0

    def start(self) -> None:
        """Begin with a call."""
        self._waited_ns = _waited_ns()
        self._switches = _switches()
        self._began = time.perf_counter()

    def stop(self, name: str, share: float = 1.0) -> None:
        """End it; `share` of its time is what one thing took."""
        seconds = time.perf_counter() - self._began
        is_disturbed = _switches() != self._switches and self._is_long(seconds)
        self._flags.append(float(is_disturbed))
        kept = self._disturbed if is_disturbed else self._times
        kept.setdefault(name, []).append(seconds * share)

    def take(self, name: str, seconds: list[float]) -> None:
        """Take in times that were found otherwise."""
        self._times.setdefault(name, []).extend(seconds)

    def _is_long(self, seconds: float) -> bool:
        """Whether the thread waited for a processor for long; so where the kernel does not say."""
        now_ns = _waited_ns()
        if now_ns is None or self._waited_ns is None:
            return True
        return (now_ns - self._waited_ns) / 1e9 > _DISTURBING * seconds

    def times(self) -> Times:
        """Return all times; where every call was disturbed, the shortest of them."""
        if keeps_disturbed:
            return joined(self._times, self._disturbed, {"disturbed": self._flags})
        shortest = {name: [min(times)] for name, times in self._disturbed.items()}
        return {**shortest, **self._times, "disturbed": self._flags}


def _switches() -> int:
    """How often other programs took the processor from this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _waited_ns() -> int | None:
    """How long this thread was ready and had no processor; None if the kernel does not count it."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read(64).split()[1])
    except (OSError, ValueError, IndexError):
        return None


def joined(*parts: Times) -> Times:
    """Return the times of several parts together."""
    times: Times = {}
    for part in parts:
        for name, seconds in part.items():
            times.setdefault(name, []).extend(seconds)
    return times
