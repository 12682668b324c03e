"""Dask runs tasks on the hosts where their input files lie.

`beside` answers for tasks that are submitted by hand:

    hosts = workers_by_host(client, "/mnt/work")
    client.submit(work, path, workers=beside([path], hosts), allow_other_workers=True)

`install` has the scheduler do so for every task, when it is about to run: its input files are
those of its annotation, else the paths below the directory among its arguments.

    install(client, "/mnt/work")
    client.submit(work, path)                             # an argument
    with dask.annotate(intarsia_inputs=[path]):           # where it is in no argument
        client.submit(work, number)

Files that many of these tasks have in common are spread: their readers take them from each other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from dask.typing import Key
from distributed import Client
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

from intarsia.engines.dask_hints import Readers
from intarsia.locate import has_lost_store, host_of, locate
from intarsia.schedule import PATIENCE_S, Host, Task, soonest_local
from intarsia.units import payload_rate

#: The annotation that names a task's input files.
INPUTS = "intarsia_inputs"
#: The topic of `client.get_events` that says which task was placed where, and with how many of
#: its input bytes on a disk of that host.
EVENTS = "intarsia"
#: The topic that says which files are spread, and why.
HINT_EVENTS = "intarsia-hints"
_WORKERS = "intarsia-workers"
_PLUGIN = "intarsia"
_log = logging.getLogger(__name__)


def workers_by_host(client: Client, directory: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Ask every worker for the name of its host in the store that `directory` is in.

    Returns addresses of workers by host. Raises ValueError for a worker that does not see it.
    """
    found = defaultdict(list)
    for address, host in client.run(host_of, os.fspath(directory)).items():
        if host is None:
            raise ValueError(f"worker {address}: {directory} is in no store there; mount it first")
        found[host].append(address)
    return dict(found)


def beside(
    paths: Iterable[str | os.PathLike[str]], workers: Mapping[str, list[str]]
) -> list[str] | None:
    """Return the workers on the host that holds most bytes of `paths`; None: no host is nearer.

    The value for `workers=` of `Client.submit` and `Client.map`, with `allow_other_workers=True`.
    """
    held = locate(paths).bytes_by_host
    return next((workers[host] for host in held if host in workers), None)


def install(
    client: Client,
    directory: str | os.PathLike[str],
    *,
    patience_s: float = PATIENCE_S,
    hints: bool = True,
    link: str = "1gbit",
) -> None:
    """Have the scheduler place tasks with input files below `directory`; `remove` ends it.

    A task is sent to the host that holds most of its input, unless that host is busy for
    `patience_s` longer than the least busy one. Workers and the scheduler's host must
    see the store's `directory` at the same path. Tasks that name `workers=` are left alone.

    With `hints` a file that is there gets `pattern=broadcast` before a task that reads it begins,
    where all that wait and name it have it sooner so, over links of the rate `link`.
    """
    workers = workers_by_host(client, directory)
    link_bytes_per_s = payload_rate(link) if hints else None
    placement = Placement(os.fspath(directory), patience_s, workers, link_bytes_per_s)
    client.register_plugin(placement)
    client.register_plugin(HostName(os.fspath(directory)))


def remove(client: Client) -> None:
    """Have the scheduler place tasks by itself again."""
    client.unregister_worker_plugin(_PLUGIN)
    client.unregister_scheduler_plugin(_PLUGIN)


class HostName(WorkerPlugin):
    """Tells the scheduler which of the store's hosts a worker is on, and when the store is lost.

    Where the store's node has ended all tasks fail at once, so that Dask would send them all there.
    """

    name = _PLUGIN

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def setup(self, worker: Any) -> None:
        """Tell it when the worker starts, or at once."""
        self._worker = worker
        host = host_of(self._directory)
        if host is not None:
            worker.log_event(_WORKERS, {"worker": worker.address, "host": host})

    def transition(self, key: Key, start: str, finish: str, **_: Any) -> None:
        """Tell it before it hears that a task has failed, and perhaps tries that again."""
        if finish == "error" and has_lost_store(self._directory):
            self._worker.log_event(_WORKERS, {"worker": self._worker.address, "host": None})


class Placement(SchedulerPlugin):
    """Restricts a task, when its last dependency is done, to workers beside its input.

    The restriction is strict, or Dask would move the task to the first idle worker: it takes no
    account of files. It is loosened when the host turns out to be busy for longer than the task
    is to wait. Files get hints where the rate of links is given.
    """

    name = _PLUGIN

    def __init__(
        self,
        directory: str,
        patience_s: float,
        workers: Mapping[str, list[str]],
        link_bytes_per_s: float | None = None,
    ) -> None:
        self._directory = directory
        self._patience_s = patience_s
        self._host_of = {address: host for host, found in workers.items() for address in found}
        self._placed: set[Key] = set()
        self._retiring: set[asyncio.Future[Any]] = set()
        self._link_bytes_per_s = link_bytes_per_s
        self._readers: Readers | None = None

    async def start(self, scheduler: Any) -> None:
        """Look whether this host sees the store."""
        self._scheduler = scheduler
        if self._link_bytes_per_s is not None:
            self._readers = Readers(
                self._link_bytes_per_s, lambda told: scheduler.log_event(HINT_EVENTS, told)
            )
        if host_of(self._directory) is None:
            raise ValueError(f"{self._directory} is in no store on the scheduler's host")

    def log_event(self, topic: str, msg: Any) -> None:
        """Take note of a worker's host."""
        if topic != _WORKERS:
            return
        worker, host = msg["worker"], msg["host"]
        if host is not None:
            self._host_of[worker] = host
        elif self._host_of.pop(worker, None) and self._workers():
            self._retire(worker)

    def _retire(self, address: str) -> None:
        """Send no more tasks to a worker without the store, and what it has done to others."""
        _log.warning("worker %s does not see %s any more and ends", address, self._directory)
        scheduler, why = self._scheduler, f"intarsia-lost-{time.time()}"
        # At once, as its failed task is placed next.
        scheduler.handle_worker_status_change(Status.closing_gracefully, address, why)
        retired = scheduler.retire_workers(
            workers=[address], close_workers=True, remove=True, stimulus_id=why
        )
        self._retiring = {one for one in self._retiring if not one.done()}
        self._retiring.add(asyncio.ensure_future(retired))

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        """Forget a worker that has gone."""
        self._host_of.pop(worker, None)

    def transition(self, key: Key, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Place what is about to run: tasks that wait for nothing, or no longer."""
        task = self._scheduler.tasks.get(key)
        if finish == "forgotten":
            # Until then it may have to be done again, elsewhere: its restriction is still ours.
            self._placed.discard(key)
        if finish in ("memory", "erred", "forgotten"):
            if self._readers is not None:
                self._readers.discard(key)
            if self._placed:
                self._loosen()
        if task is not None and finish == "waiting" and self._readers is not None:
            self._readers.add(key, self._inputs(task))
        if task is None or finish not in ("waiting", "memory"):
            return
        for ready in [task] if finish == "waiting" else list(task.dependents):
            if ready.state == "waiting" and not ready.waiting_on:
                self._place(ready)

    def _place(self, state: Any) -> None:
        is_restricted = state.worker_restrictions or state.host_restrictions
        if is_restricted and state.key not in self._placed:
            return
        found = locate(self._inputs(state))
        inputs = Task.reading(found)
        workers = self._workers()
        if self._readers is not None:
            self._readers.begin(found, len(workers), {one.key for one in state.dependents})
        hosts = [self._host(name, found) for name, found in workers.items()]
        chosen = None
        if inputs.bytes_by_host:
            chosen = soonest_local(inputs, hosts, patience_s=self._patience_s)
        if chosen is None:
            # It may come back from a host that was lost.
            self._scheduler.set_restrictions({state.key: None})
            self._placed.discard(state.key)
            return
        beside_it = {worker.address for worker in workers[chosen.name]}
        self._scheduler.set_restrictions({state.key: beside_it})
        state.loose_restrictions = False
        self._placed.add(state.key)
        told = {
            "key": str(state.key),
            "host": chosen.name,
            "local_bytes": inputs.local_bytes(chosen.name),
            "input_bytes": inputs.input_bytes,
        }
        self._scheduler.log_event(EVENTS, told)

    def _loosen(self) -> None:
        """Let idle workers take what was placed on hosts that are busy for too long by now."""
        workers = self._workers()
        wait_s = {name: self._host(name, found).wait_s for name, found in workers.items()}
        soonest_s = min(wait_s.values(), default=0.0)
        late = [name for name in wait_s if wait_s[name] > soonest_s + self._patience_s]
        for worker in chain.from_iterable(workers[name] for name in late):
            for task in worker.processing:
                task.loose_restrictions |= task.key in self._placed

    def _workers(self) -> dict[str, list[Any]]:
        """The workers that take tasks, by host."""
        found = defaultdict(list)
        for address, host in self._host_of.items():
            worker = self._scheduler.workers.get(address)
            if worker in self._scheduler.running:
                found[host].append(worker)
        return found

    @staticmethod
    def _host(name: str, workers: Sequence[Any]) -> Host:
        free = sum(max(0, worker.nthreads - len(worker.processing)) for worker in workers)
        wait_s = min(worker.occupancy / worker.nthreads for worker in workers)
        return Host(name, free, 0.0 if free else wait_s)

    def _inputs(self, state: Any) -> list[str]:
        named = (state.annotations or {}).get(INPUTS)
        if named is not None:
            return [os.fspath(path) for path in named]
        return [path for path in paths_in(state.run_spec) if path.startswith(f"{self._directory}/")]


def paths_in(value: Any) -> Iterator[str]:
    """Yield the strings and paths among the arguments of a task, also those in containers."""
    if isinstance(value, str | os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            yield path
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from paths_in(one)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from paths_in(one)
    else:
        # A node of the graph: a task or container with `args` and `kwargs`, or data with `value`.
        for name in ("args", "kwargs", "value"):
            yield from paths_in(getattr(value, name, ()))
