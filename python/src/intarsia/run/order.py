"""What a worker is told to do, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Stamp:
    """How a file looked when it was made: another size or time means other content."""

    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Order:
    """One attempt at a task.

    All paths are absolute. `hints` are set on outputs before the command runs. `log` gets what
    the command prints. `timeout_s`: seconds after which it is ended; None is never.
    With `checks_inputs` inputs are read after a failure; what only `gone_hosts` hold gets no time
    to recover then. With `imitates` the command says at the end of its log how long it did what a
    task would do (`intarsia.run.imitate`). `store` is what `directory` must be in, if in any.
    """

    task: str
    attempt: int
    command: str
    directory: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    hints: Mapping[str, Mapping[str, str]]
    log: str
    stdin: str | None = None
    timeout_s: float | None = None
    checks_inputs: bool = False
    gone_hosts: tuple[str, ...] = ()
    imitates: bool = False
    store: str | None = None


class Result(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    #: The command ended with another code than 0, or by a signal.
    FAILED = "failed"
    #: It was ended because it took too long.
    TIMEOUT = "timeout"
    #: It ended well and did not make all that it was to make.
    INCOMPLETE = "incomplete"
    #: A file that it reads cannot be read; `lost` says which.
    LOST_INPUT = "lost-input"
    #: Its worker went away.
    WORKER_LOST = "worker-lost"
    #: The store went from its host, which says nothing of the task; there may be more to come.
    STORE_LOST = "store-lost"
    #: An input was made again while it ran: it may have read what was not whole.
    DOUBTFUL = "doubtful"
    #: It was ended because the run stops.
    STOPPED = "stopped"


#: What an attempt says of its task; the others say something of its hosts and its inputs.
COUNTED = (Result.DONE, Result.FAILED, Result.TIMEOUT, Result.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt went: `began_s` and `ended_s` in seconds since 1970, by the worker's clock.

    `command_s` is how long the command itself took of this; of one that imitates a task, what it
    imitates: all else is the engine's. `detail` says what went wrong. `outputs` are stamps of what
    was made. `memory_bytes` is the largest resident set of a process.
    """

    result: Result
    detail: str = ""
    exit_code: int | None = None
    began_s: float = 0.0
    ended_s: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    outputs: Mapping[str, Stamp] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    hint_problem: str = ""
    command_s: float = 0.0

    @property
    def took_s(self) -> float:
        """Seconds from its begin to its end."""
        return self.ended_s - self.began_s
