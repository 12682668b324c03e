"""The time of day for those who reckon with how long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable


def steady_clock() -> Callable[[], float]:
    """Return a clock in seconds since 1970 that nobody sets while it is used."""
    ahead_s = time.time() - time.monotonic()
    return lambda: ahead_s + time.monotonic()
