"""Waits out the seconds in which a store whose host was lost answers with errors."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from intarsia.locate import NODE_ENDED

T = TypeVar("T")

#: A store of several hosts goes on some 10 s after it lost one.
SETTLE_S = 30.0
_AGAIN_S = 0.25
_PASSING = frozenset({errno.EIO, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EAGAIN})
#: What calls say while a mount is away: its node has ended, or nothing is mounted there.
AWAY = NODE_ENDED | {errno.ENOENT}


def may_pass(error: OSError) -> bool:
    """Whether it may come to work by itself, or by somebody who brings the store up again."""
    return error.errno in _PASSING | AWAY


def patiently(action: Callable[[], T], limit_s: float = SETTLE_S) -> T:
    """Do something again as long as it fails with what may pass, for `limit_s` seconds at most.

    Raises the last OSError.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return action()
        except OSError as error:
            if error.errno not in _PASSING or time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN_S)
