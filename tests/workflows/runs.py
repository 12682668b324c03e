"""`intarsia run` as a process, and what it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
#: Workers find the package of this checkout.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "python/src")}
#: Longer than any run of a test takes on a busy machine.
LIMIT_S = 120.0


class Run:
    """A run that is under way."""

    def __init__(self, workflow: Path, *options: str | Path) -> None:
        words = [sys.executable, "-m", "intarsia.run", workflow, *options]
        self.process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    def end(self, code: int = 0) -> tuple[str, str]:
        """Wait for its end; return what it printed on both outputs."""
        try:
            out, err = self.process.communicate(timeout=LIMIT_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        assert self.process.returncode == code, f"{self.process.returncode}:\n{out}\n{err}"
        return out, err

    def summary(self, code: int = 0) -> Any:
        """Wait for its end; return what `--json` printed."""
        return json.loads(self.end(code)[0])

    def started(self) -> list[psutil.Process]:
        """All processes that it has started and that run now."""
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found


def run(workflow: Path, *options: str | Path, code: int = 0) -> Any:
    """Run a workflow to its end; return its summary."""
    return Run(workflow, *options, "--json").summary(code)


def wait_until(
    what: Callable[[], bool], run: Run | None = None, *, limit_s: float = LIMIT_S
) -> None:
    """Wait for something, for as long as the run goes on."""
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, "it never came about"
        if run is not None and run.process.poll() is not None:
            raise AssertionError(f"the run ended: {run.process.communicate()}")
        time.sleep(0.05)


def assert_gone(processes: list[psutil.Process]) -> None:
    """Fail if a process does not end, as what a run leaves behind must by itself."""
    _, left = psutil.wait_procs(processes, timeout=30)
    said = [f"{one.pid}: {one.cmdline()}" for one in left if one.is_running()]
    for one in left:
        one.kill()
    assert not said, said
