"""How far a workflow is: which tasks may begin, and what follows when one ends; without I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum

from intarsia.run.graph import Graph

#: So many times a task may lose its worker, and its inputs, before it counts as failed.
LOSSES = 3


class State(Enum):
    """Where a task stands."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    #: A task that it needs has failed.
    BLOCKED = "blocked"


#: Of these a task may still be done.
GOING = (State.WAITING, State.READY, State.RUNNING)


class Progression:
    """The states of all tasks; every change of one is told to it."""

    def __init__(self, graph: Graph, to_run: Collection[str], retries: int) -> None:
        """`to_run` names the tasks that are not done; `retries` is for tasks that do not say."""
        self._graph = graph
        self._retries = retries
        self._states = {
            name: State.WAITING if name in to_run else State.DONE for name in graph.tasks
        }
        self._failures: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self._doubtful: set[str] = set()

    def __getitem__(self, name: str) -> State:
        return self._states[name]

    def count(self, state: State) -> int:
        """How many tasks are in a state."""
        return sum(one is state for one in self._states.values())

    def named(self, state: State) -> list[str]:
        """The tasks in a state, in their order."""
        return [name for name, one in self._states.items() if one is state]

    def is_over(self) -> bool:
        """Whether nothing runs and nothing more can begin."""
        return not any(one in GOING for one in self._states.values())

    def release(self, names: Iterable[str] | None = None) -> list[str]:
        """Make those tasks ready whose parents are done; of all, or of some. Returns them."""
        found = []
        for name in self._states if names is None else names:
            parents = self._graph.parents[name]
            is_free = all(self._states[parent] is State.DONE for parent in parents)
            if self._states[name] is State.WAITING and is_free:
                self._states[name] = State.READY
                found.append(name)
        return found

    def start(self, name: str) -> int:
        """A task begins; returns the number of the attempt, from 1."""
        assert self._states[name] is State.READY
        self._states[name] = State.RUNNING
        self._doubtful.discard(name)
        readers = self._graph.children[name]
        self._doubtful |= {child for child in readers if self._states[child] is State.RUNNING}
        self.attempts[name] += 1
        return self.attempts[name]

    def is_doubtful(self, name: str) -> bool:
        """Whether an input of a task that runs was made again since it began.

        It may have read what was not whole, whatever it says.
        """
        return name in self._doubtful

    def done(self, name: str) -> list[str]:
        """A task is done; returns those that may begin now."""
        assert self._states[name] is State.RUNNING
        self._states[name] = State.DONE
        return self.release(sorted(self._graph.children[name]))

    def failed(self, name: str) -> bool:
        """An attempt has failed; says whether the task may try again, and is ready."""
        self._failures[name] += 1
        own = self._graph.tasks[name].retries
        return self._again(name, self._failures[name] <= (self._retries if own is None else own))

    def lost(self, name: str, *, counts: bool = True) -> bool:
        """An attempt was lost with its worker, or is doubtful; says whether the task runs again.

        It does in any case where that does not count.
        """
        self._losses[name] += counts
        return self._again(name, self._losses[name] <= LOSSES)

    def give_up(self, name: str) -> None:
        """A task that is ready or runs has failed for good, and what needs it is blocked."""
        self._again(name, False)

    def remake(self, name: str, makers: Iterable[str]) -> list[str]:
        """Let `makers` run again, for a task that is ready or has run and lost its inputs.

        Returns what is ready now and what is no longer. Gives the task up when that
        happens too often.
        """
        self._losses[name] += 1
        if self._losses[name] > LOSSES:
            self._again(name, False)
            return [name]
        changed = [name]
        self._states[name] = State.WAITING
        for maker in makers:
            if self._states[maker] is State.DONE:
                self._states[maker] = State.WAITING
                changed.append(maker)
            for child in self._graph.children[maker]:
                if self._states[child] is State.READY:
                    self._states[child] = State.WAITING
                    changed.append(child)
        self.release(changed)
        return changed

    def redo(self, name: str, may: bool) -> bool:
        """The results of a task that is done are lost; says whether it runs again, as it `may`."""
        assert self._states[name] is State.DONE
        self._losses[name] += 1
        may = may and self._losses[name] <= LOSSES
        self._states[name] = State.WAITING if may else State.FAILED
        return may

    def _again(self, name: str, may: bool) -> bool:
        assert self._states[name] in (State.RUNNING, State.READY)
        # Where an input is being made again, it would read what is not whole.
        waits = any(self._states[parent] in GOING for parent in self._graph.parents[name])
        self._states[name] = (State.WAITING if waits else State.READY) if may else State.FAILED
        if not may:
            self._block(name)
        return may

    def _block(self, name: str) -> None:
        left = list(self._graph.children[name])
        while left:
            child = left.pop()
            if self._states[child] in (State.WAITING, State.READY):
                self._states[child] = State.BLOCKED
                left += self._graph.children[child]
