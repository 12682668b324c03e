"""Whether a run can go on while its store may be gone: from hosts, or from the run itself."""

from __future__ import annotations

from collections.abc import Callable

from intarsia.run.events import HostLeft, StoreLeft
from intarsia.run.journal import Journal, JournalError
from intarsia.run.moment import View
from intarsia.run.patience import SETTLE_S, may_pass

# A journal that takes no record is tried again after so long.
_AGAIN_S = 1.0


class Hold:
    """Holds a run on while its store is away, and gives it up after `limit_s`."""

    def __init__(
        self, journal: Journal, view: View, clock: Callable[[], float], limit_s: float = SETTLE_S
    ) -> None:
        self._journal = journal
        self._view = view
        self._clock = clock
        self._limit_s = limit_s
        #: What is gone and since when: of hosts, from the run itself, and of its journal.
        self._hosts: dict[str, tuple[str, float]] = {}
        self._here: tuple[str, float] | None = None
        self._refusal: tuple[str, float] | None = None
        #: When the journal last took no record, also if it has taken some since.
        self._refused_s = float("-inf")
        self._refused_since_s = 0.0
        self._present: set[str] = set()
        self._broken = ""

    @property
    def is_on(self) -> bool:
        """Whether nothing may begin or be recorded now."""
        return self._here is not None or self._refusal is not None

    @property
    def is_store_away(self) -> bool:
        """Whether the store is gone from the run itself or all hosts, or takes no record."""
        return self.is_on or bool(self._hosts and not self._present)

    def joined(self, host: str) -> None:
        """A host can run tasks."""
        self._present.add(host)
        self._hosts.pop(host, None)

    def left(self, event: HostLeft) -> None:
        """A host can no longer."""
        self._present.discard(event.host)
        if not event.problem:
            self._view.warn(f"host {event.host} has no worker left")
            return
        self._hosts[event.host] = (event.problem, self._clock() - event.age_s)
        self._view.warn(f"host {event.host}: the store is gone from it: {event.problem}")

    def left_here(self, event: StoreLeft) -> None:
        """The store is gone from the host of the run."""
        if self._here is None:
            self._here = (event.problem, self._clock() - event.age_s)
            self._view.warn(f"the store is gone from this host: {event.problem}")
            self._view.say(f"nothing begins until it is back; it has {self._limit_s:g} s for that")

    def back_here(self) -> bool:
        """It is back, or was never gone; says whether all goes on now."""
        if self._here is None:
            return False
        self._here = None
        self._view.warn("the store is back on this host")
        # Held there before another run does.
        return self.record(self._journal.reopen)

    def record(self, action: Callable[[], None]) -> bool:
        """Do something with the journal, and say whether it took that; raises OSError."""
        try:
            action()
        except JournalError as error:
            self._broken = str(error)
            return False
        except OSError as error:
            if not may_pass(error):
                raise
            self._refuse(str(error))
            return False
        self._refusal = None
        return True

    def _refuse(self, problem: str) -> None:
        now_s = self._clock()
        # What is opened again may fail at the next record all the same.
        if now_s - self._refused_s > self._limit_s:
            self._refused_since_s = now_s
        self._refusal, self._refused_s = (problem, self._refused_since_s), now_s

    def is_over(self) -> bool:
        """Whether it was on, and all goes on now; tries the journal if it took nothing lately."""
        if self._here is not None or self._refusal is None or not self._is_due():
            return False
        return self.record(self._journal.reopen)

    def _is_due(self) -> bool:
        return self._clock() - self._refused_s >= _AGAIN_S

    def verdict(self) -> str:
        """Why the run cannot go on, or nothing while it can, or may still come to."""
        if self._broken:
            return self._broken
        if self._here is not None and self._is_late(self._here):
            return f"the store is gone from this host: {self._here[0]}"
        if self._refusal is not None and self._is_late(self._refusal):
            return f"the journal takes no record: {self._refusal[0]}"
        if self._present or not all(map(self._is_late, self._hosts.values())):
            return ""
        told = [f"{host}: {problem}" for host, (problem, _) in sorted(self._hosts.items())]
        return f"the store is gone from all hosts: {'; '.join(told)}" if told else ""

    def _is_late(self, gone: tuple[str, float]) -> bool:
        return self._clock() - gone[1] >= self._limit_s
