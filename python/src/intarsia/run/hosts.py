"""Worker processes, one on each host, which are begun by a shell of that host."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from intarsia.engines.shell import on_host
from intarsia.run.patience import patiently
from intarsia.run.tail import tail_of

#: So often a worker that ends too early is begun again on its host.
RESTARTS = 2
_END_S = 15.0
# A process that was killed and is not gone after so long hangs in a call, which nobody can end.
_KILLED_S = 5.0


@dataclass
class _Worker:
    """A worker on a host, and how often it was begun again."""

    process: subprocess.Popen[bytes]
    restarts: int = 0
    is_given_up: bool = False


@dataclass
class Workers:
    """The workers that this run began; `shell` is None for this host alone.

    `slots` is how many tasks each takes at once, by the cores of its host where it is None. What
    they say is in `logs`.
    """

    hosts: tuple[str, ...]
    shell: str | None
    slots: int | None
    scheduler: str
    logs: Path
    _workers: dict[str, _Worker] = field(default_factory=dict)
    _cwd: str = field(init=False)

    def __post_init__(self) -> None:
        self._cwd = _here()

    def start(self) -> None:
        """Begin all. Raises OSError where the shell cannot be started."""
        self.logs.mkdir(parents=True, exist_ok=True)
        for host in self.hosts:
            self._workers[host] = _Worker(self._begin(host))

    def look(self) -> list[str]:
        """Begin those again that have ended; returns what is to be said of it."""
        said = []
        for host, worker in self._workers.items():
            status = worker.process.poll()
            if status is None or worker.is_given_up:
                continue
            if worker.restarts < RESTARTS:
                worker.restarts += 1
                worker.process = self._begin(host)
                said.append(f"the worker on {host} ended ({status}) and is begun again")
            else:
                worker.is_given_up = True
                said.append(f"host {host} is given up: its worker ended {RESTARTS + 1} times")
                said += tail_of(self._log(host))
        return said

    def are_gone(self) -> bool:
        """Whether all hosts are given up."""
        return all(worker.is_given_up for worker in self._workers.values())

    def end(self) -> None:
        """End all, and wait until they are gone; one that hangs in a call ends with that."""
        for worker in self._workers.values():
            if worker.process.poll() is None:
                worker.process.terminate()
        deadline = time.monotonic() + _END_S
        for worker in self._workers.values():
            try:
                worker.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(worker.process.pid, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.process.wait(_KILLED_S)

    def _begin(self, host: str) -> subprocess.Popen[bytes]:
        slots = f"--nthreads {self.slots}" if self.slots else '--nthreads "$(nproc)"'
        command = (
            f"exec {shlex.quote(sys.executable)} -m distributed.cli.dask_worker {self.scheduler} "
            f"--name {shlex.quote(host)} {slots} --no-nanny --no-dashboard --memory-limit 0 "
            "--death-timeout 60"
        )
        words = ["/bin/sh", "-c", command]
        if self.shell is not None:
            words = on_host(self.shell, host, command, Path("/tmp"))
        with self._open_log(host) as log:
            return subprocess.Popen(
                words,
                # By its path: where a store was brought up again that is another directory.
                cwd=self._cwd if os.path.isdir(self._cwd) else "/",  # noqa: PTH112
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _open_log(self, host: str) -> IO[bytes]:
        """Open the log of a worker, which is lost while its store is away."""
        try:
            # A worker ends when the store loses its host, which may hold up the log for moments.
            return patiently(lambda: self._log(host).open("ab"))
        except OSError:
            if not self._workers:
                raise
            return open(os.devnull, "ab")

    def _log(self, host: str) -> Path:
        return self.logs / f"worker-{host}.log"


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it is gone
        return "/"
