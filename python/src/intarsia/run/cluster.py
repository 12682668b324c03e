"""A scheduler and workers for a run, which go when it ends; or those that are there already."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import dask
from distributed import Client, LocalCluster

from intarsia.run.crew import DaskCrew
from intarsia.run.events import Broken, ClusterError, Event, HostJoined, HostRefused
from intarsia.run.hosts import Workers
from intarsia.run.patience import SETTLE_S
from intarsia.run.place import Place

# A host that has not been heard of for so long is lost.
_SILENCE = "30s"
_CONNECT_S = 30
_START_S = 90.0
_CLOSE_S = 3


class RunCrew(DaskCrew):
    """Workers that are begun again when they end too early."""

    def __init__(
        self,
        client: Client,
        directory: Path,
        store: str | None,
        workers: Workers | None,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(client, str(directory), store)
        self._workers = workers
        self._say = say
        self._early: list[Event] = []

    def gather(self, hosts: int) -> None:
        """Wait until so many hosts have joined; raises ClusterError if none does."""
        began_s = refused_s = time.monotonic()
        joined: set[str] = set()
        refused: dict[str, str] = {}
        while True:
            now_s = time.monotonic()
            is_missing = len(joined | refused.keys()) < hosts and now_s - began_s < _START_S
            # The store may have gone since the run began, and come back.
            is_blind = self._store is not None and bool(refused) and not joined
            if not is_missing and not (is_blind and now_s - refused_s < SETTLE_S):
                break
            events = self._next(0.1)
            self._early += events
            joined |= {event.host for event in events if isinstance(event, HostJoined)}
            for event in events:
                if isinstance(event, Broken):
                    raise ClusterError(event.reason)
                if isinstance(event, HostRefused):
                    refused[event.host] = event.reason
                    refused_s = time.monotonic()
            if self._workers is not None and self._workers.are_gone():
                break
        if refused and not joined:
            host, reason = next(iter(refused.items()))
            raise ClusterError(f"no host can run tasks; {host}: {reason}")
        if not joined:
            raise ClusterError(f"no worker came within {_START_S:g} s")
        if len(joined) < hosts:
            self._say(f"{len(joined)} of {hosts} hosts are there; going on with them")

    def wait(self, timeout_s: float) -> list[Event]:
        """Return what happened."""
        if self._early:
            early, self._early = self._early, []
            return early
        return self._next(timeout_s)

    def _next(self, timeout_s: float) -> list[Event]:
        if self._workers is not None:
            for text in self._workers.look():
                self._say(text)
            if self._workers.are_gone():
                return [Broken("no host is left to run tasks on")]
        return super().wait(timeout_s)


@contextlib.contextmanager
def crew_of(
    place: Place, directory: Path, store: str | None, logs: Path, say: Callable[[str], None]
) -> Iterator[RunCrew]:
    """A crew that is there inside the block, and gone after it with all that it runs.

    Raises ClusterError, OSError.
    """
    # Dask sets levels of its own for some of its parts.
    for name in (
        "distributed",
        "distributed.client",
        "distributed.scheduler",
        "distributed.worker",
        # Says every half second that there are no descriptors left, for which nothing begins.
        "tornado.application",
    ):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    dask.config.set({"distributed.scheduler.worker-ttl": _SILENCE})
    with contextlib.ExitStack() as stack:
        workers = None
        address = place.scheduler
        if address is None:
            host = place.listens_at()
            if host is None:
                raise ClusterError(
                    f"no address of this host is known from which {place.hosts[0]} and others "
                    "are reached by their names: say by --address how they reach this host"
                )
            cluster = stack.enter_context(_cluster_at(host))
            address = cluster.scheduler_address
            workers = Workers(place.hosts, place.shell, place.slots, address, logs)
        try:
            client = Client(address, timeout=_CONNECT_S, set_as_default=False)
            stack.callback(client.close, timeout=_CLOSE_S)
        except (OSError, TimeoutError, ValueError) as error:
            said = str(error) or type(error).__name__
            raise ClusterError(f"no scheduler answers at {address}: {said}") from None
        if workers is not None:
            stack.callback(workers.end)
            workers.start()
        try:
            crew = RunCrew(client, directory, store, workers, say)
        except Exception as error:  # of any kind, from the workers that are there
            raise ClusterError(
                f"the workers at {address} cannot run tasks: {error}; they need intarsia[run]"
            ) from None
        stack.callback(crew.close)
        crew.gather(_expected(place, client))
        yield crew


def _cluster_at(host: str) -> LocalCluster:
    """A scheduler that listens at an address of this host; raises ClusterError."""
    try:
        return LocalCluster(
            n_workers=0,
            host=host,
            # Without an address Dask's page would be offered to the network.
            dashboard_address="127.0.0.1:0",
            silence_logs=False,
        )
    except (OSError, RuntimeError, ValueError) as error:
        cause = error.__cause__ or error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise ClusterError(
            f"no scheduler can listen at {host}: {cause}; give an address of this host by --address"
        ) from None


def _expected(place: Place, client: Client) -> int:
    """How many hosts to wait for."""
    if place.scheduler is None:
        return len(place.hosts)
    info: Sequence[str] = client.scheduler_info(n_workers=-1)["workers"]
    return min(1, len(info)) or 1
