"""Running programs in tests: bounded, loud on failure, without the user's own settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

LIMIT_S = 240

_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@localhost",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@localhost",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "LC_ALL": "C",
}


def run(
    *argv: str | Path, cwd: Path, stdin: str = "", environment: Mapping[str, str] | None = None
) -> str:
    """Run a program in `cwd` and return its output; fail with all it said unless it succeeds."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        input=stdin,
        env={**os.environ, **_ENVIRONMENT, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, (
        f"{argv} failed ({done.returncode}) in {cwd}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout


def both_outputs(
    argv: Sequence[str], *, limit_s: float, env: Mapping[str, str], cwd: Path | None = None
) -> str:
    """Run a program and return what it said on both outputs; fail with that unless it succeeds."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, f"{argv} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def shell(script: str, cwd: Path) -> str:
    """Run a bash script that stops at its first failing command."""
    return run("bash", "-euo", "pipefail", "-c", script, cwd=cwd)


def python(script: str, cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python process of the same environment; `finish` waits for it."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*processes: subprocess.Popen[str]) -> list[str]:
    """Wait for processes, fail if one failed, and return what each printed."""
    printed = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, f"process failed ({process.returncode}):\n{out}\n{err}"
            printed.append(out)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return printed
