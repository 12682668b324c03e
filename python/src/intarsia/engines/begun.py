"""Commands that a process begins, and that end with it, also when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from intarsia.run import guard


class Begun:
    """Begins commands, each a group of processes of its own, which a watcher ends after us.

    Of `ssh -tt` the end is that of what it runs on the other host.
    """

    def __init__(self) -> None:
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, "SIGTERM"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            # What is sent to our own group, as Ctrl-C is, does not end it before us.
            start_new_session=True,
        )

    def begin(self, words: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Begin a command, whose outputs go to `log`."""
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._tell(f"+{process.pid}")
        return process

    def ended(self, process: subprocess.Popen[bytes]) -> None:
        """A command has ended, and the number of its group may be another's from now on."""
        self._tell(f"-{process.pid}")

    @staticmethod
    def end(process: subprocess.Popen[bytes]) -> None:
        """Have a command end, with all that it began."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)

    def close(self) -> None:
        """End what is left, and the watcher."""
        assert self._watcher.stdin is not None
        with suppress(BrokenPipeError):
            self._watcher.stdin.close()
        self._watcher.wait()

    def _tell(self, line: str) -> None:
        assert self._watcher.stdin is not None
        with suppress(BrokenPipeError):
            print(line, file=self._watcher.stdin, flush=True)
