"""Tells when a directory goes from its store, and when it is back, within seconds of it."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from intarsia.run.lookout import ENDED
from intarsia.run.patience import SETTLE_S

_LOOKOUT = Path(__file__).with_name("lookout.py")
# A lookout that somebody has ended is begun again after so long.
_AGAIN_S = 1.0
_END_S = 1.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of a store: all is well, or `problem` says what is not.

    `age_s` is for how long that has been so. `is_absent`: calls do not fail, but lead elsewhere.
    """

    problem: str = ""
    age_s: float = 0.0
    is_absent: bool = False


BACK = Sight()


@dataclass
class Judge:
    """Decides by what a lookout says whether a store is gone; without I/O.

    A store that only fails recovers by itself, if its host or a server was lost: it is gone after
    `settle_s`. One that is slow lives: it is gone if it says nothing for twice as long.
    """

    began_s: float
    settle_s: float = SETTLE_S
    is_lost: bool = False
    _well_s: float = field(init=False)
    _device: str = ""
    _fails: str = ""

    def __post_init__(self) -> None:
        self._well_s = self.began_s

    def hear(self, line: str, now_s: float) -> list[Sight]:
        """Hear a line, which is empty where none came; returns what changed."""
        word, _, rest = line.partition(" ")
        if word == "ok":
            return self._well(rest, now_s)
        if word == "gone":
            return self._lose(Sight(rest, is_absent=rest != ENDED))
        if word == "fails":
            self._fails = rest
        for_s = now_s - self._well_s
        if for_s < self.settle_s * (1 if self._fails else 2):
            return []
        problem = f"all calls fail: {self._fails}" if self._fails else "its node does not answer"
        return self._lose(Sight(problem, for_s))

    def _well(self, device: str, now_s: float) -> list[Sight]:
        self._well_s, self._fails = now_s, ""
        before, self._device = self._device, device
        if self.is_lost or not before:
            self.is_lost = False
            return [BACK]
        if before != device:
            # What was open in the mount before fails for ever.
            return [Sight("it was brought up anew"), BACK]
        return []

    def _lose(self, sight: Sight) -> list[Sight]:
        if self.is_lost:
            return []
        self.is_lost = True
        return [sight]


class Watch:
    """Has a lookout look at a directory, and tells what it sees, in a thread."""

    def __init__(self, directory: str, store: str, tell: Callable[[Sight], None]) -> None:
        self._words = [sys.executable, "-I", "-S", str(_LOOKOUT), directory, store]
        self._tell = tell
        self._judge = Judge(time.monotonic())
        self._is_closed = threading.Event()
        self._lookout = self._begin()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def is_lost(self) -> bool:
        """Whether the store is gone."""
        return self._judge.is_lost

    def close(self) -> None:
        """Look no more. A lookout whose call hangs is left behind, and ends with that call."""
        self._is_closed.set()
        self._thread.join(_END_S + _AGAIN_S)

    def _begin(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._words,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _listen(self) -> None:
        rest = b""
        while not self._is_closed.is_set():
            said = self._read()
            if said == b"":
                self._begin_again()
            *lines, rest = (rest + (said or b"")).split(b"\n")
            for line in lines or [b""]:
                for sight in self._judge.hear(line.decode(), time.monotonic()):
                    self._tell(sight)
        self._end()

    def _read(self) -> bytes | None:
        """Return what the lookout says, or None where it says nothing for a while."""
        assert self._lookout.stdout is not None
        readable, _, _ = select.select([self._lookout.stdout], [], [], 0.2)
        return os.read(self._lookout.stdout.fileno(), 1 << 12) if readable else None

    def _begin_again(self) -> None:
        self._end()
        self._is_closed.wait(_AGAIN_S)
        # Where no process can be begun now, one may be later.
        with contextlib.suppress(OSError):
            self._lookout = self._begin()

    def _end(self) -> None:
        self._lookout.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._lookout.wait(_END_S)
