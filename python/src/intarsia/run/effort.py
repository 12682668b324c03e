"""How long an engine was at work, so that a prediction can know what a task costs there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]


@dataclass
class Effort:
    """Adds up seconds of turns in which something happened.

    `worked_s` is how long the engine decided, handed over and took note; `beside_s` for how long
    its process used a processor while it waited for the next thing: what carries its messages runs
    in threads of the same interpreter, one at a time with it. `processor_s` is for how long it used
    a processor in all. Turns in which nothing happens are what any idle engine does, and are left
    out.
    """

    worked_s: float = 0.0
    beside_s: float = 0.0
    processor_s: float = 0.0
    wall: Clock = time.monotonic
    cpu: Clock = time.process_time
    _turn: tuple[float, float] = (0.0, 0.0)
    _works_since: float | None = None
    _waits_since: float | None = None
    _turn_since: float | None = None

    def works(self) -> None:
        """The engine goes on, at the begin of a turn or after it waited."""
        worked_s, beside_s = self._turn
        if self._waits_since is not None:
            beside_s += self.cpu() - self._waits_since
        self._turn, self._waits_since = (worked_s, beside_s), None
        self._works_since = self.wall()
        if self._turn_since is None:
            self._turn_since = self.cpu()

    def waits(self) -> None:
        """The engine waits for what happens next."""
        worked_s, beside_s = self._turn
        if self._works_since is not None:
            worked_s += self.wall() - self._works_since
        self._turn, self._works_since = (worked_s, beside_s), None
        self._waits_since = self.cpu()

    def ends_turn(self, *, counts: bool) -> None:
        """The turn is over; it counts if something happened in it."""
        self.waits()
        worked_s, beside_s = self._turn
        if counts:
            self.worked_s += worked_s
            self.beside_s += beside_s
            self.processor_s += self.cpu() - (self._turn_since or 0.0)
        self._turn, self._waits_since, self._turn_since = (0.0, 0.0), None, None
