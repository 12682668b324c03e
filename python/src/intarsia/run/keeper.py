"""Processes of tasks on a worker: begun so that none outlives the worker or the run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_GUARD = Path(__file__).with_name("guard.py")
# The command begins when the guard knows of it; if the worker dies before, it never does.
_GATE = 'read -r _ || exit 1; exec /bin/sh -c "$1"'
# How long a command may take to end when it is asked to.
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: `exit_code` below 0 is a signal; `cpu_s` is of all its processes.

    `took_s` is from when its gate was opened to when its end was known.
    """

    exit_code: int
    cpu_s: float
    memory_bytes: int
    timed_out: bool
    stopped: bool
    took_s: float


class Keeper:
    """Runs commands for the threads of one worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._is_stopped = False
        #: How often the store has gone from this host.
        self.losses = 0
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
            bufsize=1,
        )

    def run(
        self,
        command: str,
        directory: str,
        log: IO[bytes],
        stdin: str | None,
        limit_s: float | None,
        losses: int | None = None,
    ) -> Ended:
        """Run a command to its end, or to its limit; what it leaves in the background is killed.

        It is killed if `losses` was how often the store had gone when all was prepared for it, and
        it has gone again. Raises OSError if it cannot be begun.
        """
        losses = self.losses if losses is None else losses
        gate = _GATE if stdin is not None else f"{_GATE} </dev/null"
        process = subprocess.Popen(
            ["/bin/sh", "-c", gate, "task", command],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        timer = None
        late = threading.Event()
        try:
            self._tell("+", process.pid)
            if self.losses > losses:
                _signal(process.pid, signal.SIGKILL)
            if limit_s is not None:
                timer = threading.Timer(limit_s, self._end_late, (process.pid, late))
                timer.start()
            opened_s = time.monotonic()
            _feed(process, stdin)
            _, status, usage = os.wait4(process.pid, 0)
            took_s = time.monotonic() - opened_s
        finally:
            if timer is not None:
                timer.cancel()
            _signal(process.pid, signal.SIGKILL)
            self._tell("-", process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(
            process.returncode,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024,
            late.is_set(),
            self._is_stopped,
            took_s,
        )

    def stop(self) -> None:
        """End all that runs, and begin nothing more."""
        with self._lock:
            self._is_stopped = True
            groups = list(self._groups)
        _end(groups)

    def lose(self) -> None:
        """End all that runs now: the store that it works in is gone from this host."""
        with self._lock:
            self.losses += 1
            groups = list(self._groups)
        # None may go on for a while: its files are made elsewhere from now on.
        for group in groups:
            _signal(group, signal.SIGKILL)

    def close(self) -> None:
        """End all that runs, and the guard."""
        self.stop()
        if self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()
        self._guard.wait()

    def _tell(self, what: str, group: int) -> None:
        """Take note of a group's begin (`+`) or end (`-`)."""
        with self._lock:
            if what == "+":
                self._groups.add(group)
            else:
                self._groups.discard(group)
            if self._guard.stdin is not None and not self._guard.stdin.closed:
                with contextlib.suppress(OSError):
                    self._guard.stdin.write(f"{what}{group}\n")
            is_late = what == "+" and self._is_stopped
        if is_late:
            _signal(group, signal.SIGKILL)

    def _end_late(self, group: int, late: threading.Event) -> None:
        late.set()
        _end([group])


def _feed(process: subprocess.Popen[bytes], stdin: str | None) -> None:
    """Open the gate, and give the command its input."""
    with contextlib.suppress(OSError):
        assert process.stdin is not None
        process.stdin.write(b"\n" + (stdin or "").encode())
        process.stdin.close()


def _end(groups: list[int]) -> None:
    """Ask groups to end, and kill those that do not."""
    for group in groups:
        _signal(group, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and any(_runs(group) for group in groups):
        time.sleep(0.02)
    for group in groups:
        _signal(group, signal.SIGKILL)


def _runs(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _signal(group: int, sign: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, sign)
