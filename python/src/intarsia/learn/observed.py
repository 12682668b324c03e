"""What was observed of a workflow's files in an earlier run, whatever recorded it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Role(NamedTuple):
    """What files of one rule have in common: who makes them, how they are called, who reads them.

    `maker` and `readers` are stages, `names` is a glob.
    """

    maker: str
    names: str
    readers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.maker}: {self.names} -> {', '.join(self.readers) or 'nobody'}"


class LearnError(ValueError):
    """A record teaches nothing; the text names the file, what is wrong with it, and the fix."""

    def __init__(self, source: str, what: str, fix: str) -> None:
        super().__init__(f"{source}: {what}; {fix}")


@dataclass(frozen=True, slots=True)
class Read:
    """One task has read a file whole, between two Unix times; None where nobody knows."""

    task: str
    stage: str
    host: str
    began_s: float | None = None
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """Where and when a task ran: Unix times, None where nobody knows; "" for an unknown host."""

    stage: str
    host: str = ""
    began_s: float | None = None
    ended_s: float | None = None

    @property
    def took_s(self) -> float | None:
        """Seconds that it took."""
        return None if self.began_s is None or self.ended_s is None else self.ended_s - self.began_s

    def reading(self, task: str) -> Read:
        """What the task, `task` by its name, did to a file that it read."""
        return Read(task, self.stage, self.host, self.began_s, self.ended_s)


@dataclass(frozen=True, slots=True)
class File:
    """One file that a task made.

    `made_on` is the host of its maker, "" where nobody knows; `lay_on` are the hosts that held it
    when it was read, none where nobody looked. `hints` are those that it had. `made_s` is when its
    maker was done (Unix time), which took `took_s`.
    """

    name: str
    size_bytes: int
    maker: str
    stage: str
    made_on: str = ""
    made_s: float | None = None
    lay_on: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[Read, ...] = ()
    took_s: float | None = None

    @property
    def role(self) -> Role:
        """The rule that it belongs to."""
        return role_of(self.stage, self.name, (read.stage for read in self.reads))


@dataclass(frozen=True, slots=True)
class Observed:
    """An earlier run: its files, and the hints that were learned before it, by rule."""

    source: str
    files: tuple[File, ...]
    kept: Mapping[Role, Mapping[str, str]] = field(default_factory=dict)


def role_of(maker: str, name: str, readers: Iterable[str]) -> Role:
    """Return the rule of a file that the stage `maker` makes and tasks of `readers` read.

    >>> str(role_of("split", "out/part-07", ["sum", "plot", "sum"]))
    'split: part-* -> plot, sum'
    >>> str(role_of("clean", "1.txt.clean", [])), str(role_of("x", "v.1", []))
    ('clean: *.clean -> nobody', 'x: v.* -> nobody')
    """
    base = name.rpartition("/")[2]
    stem, _, ending = base.rpartition(".")
    has_ending = bool(stem) and not ending.isdecimal()
    names = f"*.{ending}" if has_ending else f"{base.rstrip('0123456789')}*"
    return Role(maker, names, tuple(sorted(set(readers))))
