"""What happens during a run, and the workers that it happens to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from intarsia.run.order import Order, Outcome


class ClusterError(RuntimeError):
    """There are no workers to run tasks; the text says why."""


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """An attempt ended; `key` is what it was begun under."""

    key: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Fetched:
    """A host has read files whole, or could not."""

    host: str
    paths: tuple[str, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class HostJoined:
    """A host has so many slots now."""

    host: str
    slots: int
    machine: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostLeft:
    """No worker is left on a host, or none that sees the store: `problem` says what of it is gone.

    That has been so for `age_s`.
    """

    host: str
    problem: str = ""
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HostRefused:
    """A worker cannot be used; `reason` says why."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoreLeft:
    """The store is gone from the host of the run itself, for `age_s`."""

    problem: str
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StoreBack:
    """The store is back on the host of the run itself."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A signal came."""

    signal: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The run cannot go on; `reason` says why."""

    reason: str


Event = (
    TaskEnded
    | Fetched
    | HostJoined
    | HostLeft
    | HostRefused
    | StoreLeft
    | StoreBack
    | StopAsked
    | Broken
)


class Crew(Protocol):
    """The workers of all hosts."""

    def begin(self, key: str, host: str, order: Order) -> None:
        """Have a host make an attempt; a `TaskEnded` with this key follows."""

    def wait(self, timeout_s: float) -> list[Event]:
        """Return what happened, as soon as something did, or nothing after `timeout_s`."""

    def fetch(self, host: str, paths: Sequence[str]) -> None:
        """Have a host read files whole, so that it keeps them; a `Fetched` follows."""

    def has_silent(self) -> bool:
        """Whether some worker was not heard of for seconds, as when its host is lost."""

    def stop_tasks(self) -> None:
        """End all attempts; each still gets its `TaskEnded`."""
