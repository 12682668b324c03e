"""What a program and everything that it started wait for: for one that does not end."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
# Stacks of the kernel get long; what is waited for stands at their top.
FRAMES = 6


def waits(session: int) -> str:
    """Each process of a session with the command it runs and where its threads wait.

    Where in the kernel is for root to read; others get the name of the wait alone.
    """
    lines = []
    for process in processes_of(session):
        lines.append(f"{process.name}: {command(process)}")
        alike = Counter(wait(thread) for thread in threads(process))
        lines.extend(f"    {where}, {count} threads" for where, count in alike.items())
    return "\n".join(lines)


def processes_of(session: int) -> Iterator[Path]:
    """The processes of a session, by number."""
    numbers = sorted(int(path.name) for path in PROC.iterdir() if path.name.isdecimal())
    for number in numbers:
        try:
            if os.getsid(number) == session:
                yield PROC / str(number)
        except ProcessLookupError:
            continue


def threads(process: Path) -> list[Path]:
    """The threads of a process, none if it has ended."""
    try:
        return sorted((process / "task").iterdir())
    except OSError:
        return []


def command(process: Path) -> str:
    """The command line of a process."""
    return " ".join(said(process / "cmdline").split("\0")).strip()


def wait(thread: Path) -> str:
    """The name of a thread and where it waits."""
    frames = [line.split()[-1] for line in said(thread / "stack").splitlines()[:FRAMES]]
    where = " < ".join(frames) or said(thread / "wchan")
    return f"{said(thread / 'comm').strip()}: {where or 'unknown'}"


def said(path: Path) -> str:
    """What a file of the kernel says, nothing if it does not."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
