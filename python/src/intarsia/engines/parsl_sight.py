"""Which hosts' workers see the store that files of Parsl's apps are in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from intarsia.locate import has_lost_store, host_of


def directories_of(paths: Iterable[str]) -> list[str]:
    """Return the directories of files in stores, also where this host's node has ended."""
    found = {os.path.dirname(path) for path in paths}  # noqa: PTH120 - many paths, and no URLs
    return sorted(one for one in found if _may_be_in_store(one))


def _may_be_in_store(directory: str) -> bool:
    try:
        return host_of(directory) is not None
    except OSError:
        return True


class Sight:
    """Asks workers: where the store's node has ended all apps fail, and at once."""

    def __init__(self, executors: Mapping[str, Any]) -> None:
        """`executors`: of Parsl, by host."""
        self._executors = executors
        self._lock = threading.Lock()
        self._lost: dict[str, list[str]] = {}
        self._asked: set[str] = set()

    @property
    def lost(self) -> set[str]:
        """The hosts whose workers did not see the store when they were asked last."""
        with self._lock:
            return set(self._lost)

    def ask(self, host: str, directories: list[str], then: Callable[[], None]) -> None:
        """Have a worker of a host look at directories of the store, and call `then` after it."""
        try:
            answer: Future[Any] = self._executors[host].submit(_is_lost, {}, directories)
        except Exception:
            # Without workers it is lost anyway.
            then()
            return
        answer.add_done_callback(partial(self._told, host, directories, then))

    def ask_again(self) -> None:
        """Ask the hosts that have lost the store, of which each has one question at a time."""
        with self._lock:
            again = {host: found for host, found in self._lost.items() if host not in self._asked}
            self._asked |= again.keys()
        for host, directories in again.items():
            self.ask(host, directories, partial(self._asked.discard, host))

    def _told(
        self, host: str, directories: list[str], then: Callable[[], None], answer: Future[Any]
    ) -> None:
        if answer.exception() is None:
            with self._lock:
                self._lost.pop(host, None)
                if answer.result():
                    self._lost[host] = directories
        then()


def _is_lost(directories: list[str]) -> bool:
    return any(has_lost_store(one) for one in directories)
