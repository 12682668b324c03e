"""Rounds of probes: until every mean is known well enough, or time is up."""

from __future__ import annotations

import errno
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from intarsia.seed import links, passthrough, probe, together, watch
from intarsia.seed.compute import compute, processors
from intarsia.seed.errors import SeedError
from intarsia.seed.power import known
from intarsia.seed.remote import Remote
from intarsia.seed.statistics import Estimate, estimate
from intarsia.seed.watch import Times, joined

PREFIX = ".intarsia-seed-"
#: What must be known within the precision that is asked for; `far_…` where there is another host.
WATCHED = (
    *(f"{kind}_{call}" for kind in ("write", "cold", "warm") for call in (4096, 1 << 20)),
    *("create", "first_write", "close_write", "open", "close_read"),
    *("stat", "rename", "readdir_entry"),
)
DISTURBED = "disturbed"
WATCHED_FAR = ("far_stat", "far_open", f"far_{1 << 20}")
_LEAST_ROUNDS = 5
_NAMES = 64
_LEAST_BYTES, _MOST_BYTES = 8 * probe.MIB, 32 * probe.MIB
#: The same where links are slow.
_LEAST_FAR_BYTES = 2 * probe.MIB
#: How long the writes of the largest file should take in a round.
_WANTED_S = 0.08
#: The same of another host that reads it.
_WANTED_FAR_S = 0.5
_GRACE_S = 20.0
#: Rounds in which a stream fills the link, and for which part of the whole time each.
_BUSY_ROUNDS, _BUSY_PART = (1, 2), 1 / 12
#: In so many rounds the course of reading is told, where a medium takes so many times as long as
#: memory; the file is of so many bytes, or as many as are read in so many seconds.
_COURSES, _SLOWS, _MOST_COURSE_BYTES, _COURSE_S = 2, 4, 128 * probe.MIB, 1.5
#: The share of the time that is left for removing names, which comes after all rounds.
_REMOVAL = 0.1


def is_of_several(name: str) -> bool:
    """Whether a time is of several processes, as `write_by_2`."""
    return name.rpartition("_")[0].endswith("_by")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and for how long: `seconds` at most, until `precision` is reached.

    `precision` is half of a 95 % interval as a share of the mean. With `as_loaded` calls count too
    during which other programs took the processor. `power` is a file that says what the host draws.
    `others` are hosts beside the second one, `remote`.
    """

    directory: Path
    remote: Remote | None = None
    others: tuple[Remote, ...] = ()
    seconds: float = 60.0
    precision: float = 0.05
    slots: int = 1
    size_bytes: int | None = None
    as_loaded: bool = False
    power: Path | None = None
    has_told_slots: bool = False

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """All hosts but this one, from number 1."""
        return () if self.remote is None else (self.remote, *self.others)


def of_host(number: int, name: str) -> str:
    """Return how a time of a host is named, which is not this one."""
    return f"host_{number}_{name}" if number > 1 else f"far_{name.removeprefix('far_')}"


@dataclass(slots=True)
class Measurement:
    """Times of all rounds; of each name also the mean of each round.

    `first` has the means of the round that is not counted: it warms up, and finds a cold host.
    `facts` is what the kernels of other hosts say, from number 1.
    """

    size_bytes: int
    first: dict[str, float] = field(default_factory=dict)
    times: Times = field(default_factory=dict)
    means: dict[str, list[float]] = field(default_factory=dict)
    took_s: float = 0.0
    power: dict[str, Any] | None = None
    facts: list[Times] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """How many rounds count."""
        return max((len(means) for means in self.means.values()), default=0)

    def names(self) -> list[str]:
        """Return what was timed."""
        return sorted(name for name in self.means if name != DISTURBED)

    def add(self, times: Times) -> None:
        """Take in one round."""
        for name, seconds in times.items():
            self.times.setdefault(name, []).extend(seconds)
            self.means.setdefault(name, []).append(sum(seconds) / len(seconds))

    def typical(self, name: str) -> float:
        """Return the mean of a time; of several processes at once the median of the rounds.

        Nobody can tell which of these were disturbed, and the last process alone counts.
        """
        if is_of_several(name):
            return statistics.median(self.means[name])
        return self.estimate(name).mean

    def estimate(self, name: str) -> Estimate:
        """Estimate the mean of a time; rounds are the independent values."""
        return estimate(self.means.get(name, ()))

    def imprecise(self, precision: float) -> dict[str, float]:
        """Return those of the watched names that are not known well enough, with how well."""
        names = [name for name in (*WATCHED, *WATCHED_FAR) if name in self.means]
        known = {name: self.estimate(name).relative for name in names}
        return {name: found for name, found in known.items() if not found <= precision}


def measure(plan: Plan, say: Callable[[str], None]) -> Measurement:
    """Measure a directory; raises SeedError. Whatever happens, nothing stays behind in it."""
    watch.keeps_disturbed = plan.as_loaded
    with _place(plan.directory) as place, _patience(plan):
        try:
            return _measured(plan, place, say)
        except OSError as error:
            raise _explained(plan.directory, error) from error


def _measured(plan: Plan, place: Path, say: Callable[[str], None]) -> Measurement:
    began = time.monotonic()
    size = plan.size_bytes or _fitting_size(plan, place)
    _check_room(place, size, plan.slots)
    found = Measurement(size)
    found.facts = [one.facts(plan.seconds + _GRACE_S) for one in plan.remotes]
    times = _round(plan, place, 0, size)
    found.first = {name: sum(seconds) / len(seconds) for name, seconds in times.items()}
    longest = 0.0
    slows = found.first[f"cold_{probe.MIB}"] > _SLOWS * found.first[f"warm_{probe.MIB}"]
    for number in range(1, 10_000):
        now = time.monotonic()
        if number > _LEAST_ROUNDS and not found.imprecise(plan.precision):
            break
        if number > 2 and now + longest - began > (1 - _REMOVAL) * plan.seconds:
            break
        busy_bytes = _busy_bytes(plan, place, number, found)
        found.add(_round(plan, place, number, size, busy_bytes))
        if slows and number <= _COURSES:
            found.add(probe.course(str(place), _course_size(place, size, found)))
        longest = max(longest, time.monotonic() - now)
        if number % 5 == 0:
            say(f"round {number}: {len(found.imprecise(plan.precision))} times not known yet")
    for number in range(found.rounds + 1):
        times = probe.removal(str(place / str(number)))
        times.pop(DISTURBED)  # of a round it has been counted
        if number > 0:
            found.add(times)
    found.took_s = time.monotonic() - began
    found.power = known(plan.power, place, processors())
    return found


def _course_size(place: Path, size: int, found: Measurement) -> int:
    """Bytes of a file of which the course of reading is told: several times the largest other one.

    As much as a device reads in a while, and no more than a part of what is free.
    """
    mib_s = found.first[f"cold_{probe.MIB}"]
    fitting = int(min(_COURSE_S / mib_s * probe.MIB, shutil.disk_usage(place).free / 4))
    return max(size, min(_MOST_COURSE_BYTES, fitting)) // probe.MIB * probe.MIB


def _busy_bytes(plan: Plan, place: Path, number: int, found: Measurement) -> int:
    """Bytes of the file that fills the link in a round, or 0.

    A stream fills the queue of a link little by little, so that it has to go on for a while: in two
    rounds alone, for a part of the time that there is.
    """
    if plan.remote is None or number not in _BUSY_ROUNDS:
        return 0
    far_s = found.first[f"far_{probe.MIB}"]
    wanted = plan.seconds * _BUSY_PART / far_s * probe.MIB
    return int(min(wanted, _MOST_COURSE_BYTES, shutil.disk_usage(place).free / 4))


def _round(plan: Plan, place: Path, number: int, size: int, busy_bytes: int = 0) -> Times:
    """Measure everything once, in a directory of its own; the names that were made stay there."""
    here = place / str(number)
    here.mkdir()
    parts = [
        probe.metadata(str(here), _NAMES),
        probe.data(str(here), size, keep=plan.remote is not None),
    ]
    if (plain := passthrough.plain_directory()) is not None:
        parts.append(passthrough.small_calls(str(here), plain))
    if plan.remote is not None:
        parts.append(links.offer(str(here), _NAMES, busy_bytes))
        limit_s = plan.seconds + _GRACE_S
        parts.append(plan.remote.far(f"{place.name}/{number}", _NAMES, limit_s))
        parts.append(links.back(str(here)))
        parts.append(compute("compute"))
        for other, one in enumerate(plan.others, start=2):
            parts.append(one.beside(f"{place.name}/{number}", other, limit_s))
    # What takes a few milliseconds in all tells of the beginning of processes.
    lane = size if size == _MOST_BYTES else max(probe.MIB, size // 4 // probe.MIB * probe.MIB)
    # In turns: what was done just before may still be going on in the store.
    counts = sorted({1, plan.slots}, reverse=number % 2 == 1)
    parts += [together.together(str(here), lane, count) for count in counts]
    for left in here.iterdir():
        if left.is_file():
            left.unlink()
    return joined(*parts)


def _fitting_size(plan: Plan, place: Path) -> int:
    """Bytes of the largest file: what the directory takes in in a moment, within bounds.

    No more than another host reads in a moment: many short rounds tell more than a few long ones.
    """
    times = probe.data(str(place), _LEAST_BYTES, keep=plan.remote is not None)
    seconds = sum(times[f"write_{probe.MIB}"]) + sum(times[f"cold_{probe.MIB}"])
    wanted, least = 2 * _LEAST_BYTES / max(seconds, 1e-9) * _WANTED_S, _LEAST_BYTES
    if plan.remote is not None:
        limit_s = plan.seconds + _GRACE_S
        looked = [plan.remote.far(place.name, 0, limit_s)[f"far_{probe.MIB}"]]
        for number, one in enumerate(plan.others, start=2):
            name = of_host(number, f"far_{probe.MIB}")
            looked.append(one.beside(place.name, number, limit_s)[name])
        mean_s = max(map(statistics.mean, looked)) * len(looked)
        wanted = min(wanted, probe.MIB / max(mean_s, 1e-9) * _WANTED_FAR_S)
        least = _LEAST_FAR_BYTES
    size = int(min(_MOST_BYTES, max(least, wanted)))
    return size // probe.MIB * probe.MIB


def _check_room(place: Path, size: int, slots: int) -> None:
    free = shutil.disk_usage(place).free
    needed = 3 * size + slots * size
    if free < needed:
        raise SeedError(
            f"{place.parent}: {free >> 20} MiB are free, {needed >> 20} MiB are needed\n"
            "help: free some, or give a smaller --size"
        )


@contextmanager
def _place(directory: Path) -> Iterator[Path]:
    """Give a new directory below the one that is measured; remove it with all that is in it."""
    if not directory.is_dir():
        raise SeedError(f"{directory}: no directory")
    try:
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
    except OSError as error:
        raise _explained(directory, error) from error
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if place.exists():
            raise SeedError(f"{place}: cannot be removed; remove it when the store answers again")


@contextmanager
def _patience(plan: Plan) -> Iterator[None]:
    """End a measurement of a store that does not answer any more."""

    def give_up(_number: int, _frame: FrameType | None) -> NoReturn:
        raise SeedError(f"{plan.directory}: does not answer; {limit_s:.0f} s have passed")

    limit_s = 2 * plan.seconds + _GRACE_S
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_HELP = {
    errno.ENOSPC: "free some space, or give a smaller --size",
    errno.EDQUOT: "free some space, or give a smaller --size",
    errno.EROFS: "it is mounted read-only: name a directory that can be written",
    errno.EACCES: "name a directory that you may write",
    errno.EPERM: "name a directory that you may write",
    errno.ENOTCONN: "the store has died: `intarsia doctor` says more",
    errno.EIO: "the store or its disk failed: its log says more",
}


def _explained(directory: Path, error: OSError) -> SeedError:
    what = error.strerror or str(error)
    advice = _HELP.get(error.errno or 0)
    return SeedError(f"{directory}: {what}" + (f"\nhelp: {advice}" if advice else ""))
