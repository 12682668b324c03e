"""What a host draws: from the counters of its processors where they can be read (RAPL), or told.

RAPL counts processors, and on many hosts memory, not disks, cards, fans and losses of the supply:
its figures are a lower bound of what a plug would show. A meter or a data sheet is given by a file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from intarsia.seed import probe
from intarsia.seed.errors import SeedError

POWERCAP = Path("/sys/class/powercap")
FIELDS = ("idle_watts", "compute_watts", "storage_watts", "network_watts")
_MICRO = 1e-6
Joules = Callable[[], float]


def rapl(root: Path = POWERCAP) -> Joules | None:
    """Return what reads all energy of the packages and their memory, in joules; None without.

    A counter that begins anew at its end is followed, if it is read once in each turn.
    """
    counters = [Counter(one) for one in sorted(root.glob("intel-rapl:*")) if _counts(one)]
    if not counters:
        return None
    return lambda: sum(one.joules() for one in counters)


def _counts(zone: Path) -> bool:
    """Whether a zone can be read and is no part of another one, but for memory."""
    try:
        (zone / "energy_uj").read_text(encoding="ascii")
        name = (zone / "name").read_text(encoding="ascii").strip()
    except OSError:
        return False
    return name == "dram" or name.startswith("package")


class Counter:
    """One energy counter of the kernel."""

    def __init__(self, zone: Path) -> None:
        self._file = zone / "energy_uj"
        self._turn = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
        self._last = self._read()
        self._sum = 0

    def _read(self) -> int:
        return int(self._file.read_text(encoding="ascii"))

    def joules(self) -> float:
        """Return the energy since it was made."""
        now = self._read()
        self._sum += now - self._last if now >= self._last else now + self._turn - self._last
        self._last = now
        return self._sum * _MICRO


def measured(joules: Joules, directory: Path, processors: int, seconds: float) -> dict[str, Any]:
    """Measure a host for `seconds` in each state; returns `power` as a profile has it, in watts.

    What its card draws RAPL cannot tell: 0.
    """

    def draws(work: Callable[[], None]) -> float:
        began, before = time.perf_counter(), joules()
        work()
        return (joules() - before) / (time.perf_counter() - began)

    idle = draws(lambda: time.sleep(seconds))
    compute = draws(lambda: _spin(processors, seconds))
    storage = draws(lambda: _move(directory, seconds))
    return {
        "source": "measured",
        "note": "RAPL: processors and memory alone, the card not at all",
        "idle_watts": idle,
        "compute_watts": max(0.0, compute - idle),
        "storage_watts": max(0.0, storage - idle),
        "network_watts": 0.0,
    }


def _spin(processors: int, seconds: float) -> None:
    children = []
    for _ in range(processors):
        child = os.fork()
        if child == 0:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _move(directory: Path, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        probe.data(str(directory), 8 * probe.MIB)


def told(path: Path) -> dict[str, Any]:
    """Read `power` from a file: from a data sheet, or a meter; raises SeedError."""
    try:
        power = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SeedError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise SeedError(f"{path}: no JSON: {error}") from error
    wanted = ("source", "note", *FIELDS)
    if not isinstance(power, dict) or sorted(power) != sorted(wanted):
        raise SeedError(f"{path}: an object with {', '.join(wanted)} is expected, and no more")
    wrong = [name for name in FIELDS if not _is_watts(power[name])]
    if wrong:
        raise SeedError(f"{path}: {wrong[0]}: watts of 0 or more are expected")
    return power


def _is_watts(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e7


def known(path: Path | None, directory: Path, processors: int) -> dict[str, Any] | None:
    """Return what is told, else what can be measured, else None."""
    if path is not None:
        return told(path)
    joules = rapl()
    return None if joules is None else measured(joules, directory, processors, 2.0)
