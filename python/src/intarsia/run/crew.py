"""The workers of a run, by `dask.distributed`: each attempt is a task bound to one of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import queue
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from distributed import Client, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from intarsia.locate import host_of, is_in
from intarsia.run.attempt import attempt, read_whole
from intarsia.run.events import Broken, Event, Fetched, HostJoined, HostLeft, HostRefused, TaskEnded
from intarsia.run.keeper import Keeper
from intarsia.run.order import Order, Outcome, Result
from intarsia.run.replay import make_files
from intarsia.run.watch import Sight, Watch

Hints = Mapping[str, Mapping[str, str]]

_PLUGIN = "intarsia-run"
# Under this workers tell what they see of the store.
_TOPIC = "intarsia-run-store"
# So many hosts read files ahead at once.
_FETCHERS = 8
# How long a worker may take to answer what needs no work.
_ANSWER_S = 30
# Workers are heard of every second or two; the store takes longer to give a host up.
_SILENT_S = 5.0


class TaskPlugin(WorkerPlugin):
    """Gives each worker the keeper of its processes, and ends these when the worker ends.

    Those that work in a `store` are ended also when it goes from the worker's host, of which the
    run is told.
    """

    name = _PLUGIN

    def __init__(self, directory: str, store: str | None) -> None:
        self._directory = directory
        self._store = store

    def setup(self, worker: Any) -> None:
        """Begin."""
        self.keeper = Keeper()
        self._worker = worker
        self._watch = (
            None if self._store is None else Watch(self._directory, self._store, self._seen)
        )

    def teardown(self, worker: Any) -> None:
        """End what runs."""
        if self._watch is not None:
            self._watch.close()
        self.keeper.close()

    def _seen(self, sight: Sight) -> None:
        if sight.problem:
            self.keeper.lose()
        told = {"worker": self._worker.address, "problem": sight.problem, "age_s": sight.age_s}
        self._worker.log_event(_TOPIC, told | {"directory": self._directory})


def make_attempt(order: Order) -> Outcome:
    """Make an attempt, on a worker."""
    return attempt(order, _keeper(get_worker()))


async def describe(directory: str, store: str | None, dask_worker: Any) -> dict[str, Any]:
    """Say what host this worker is on, and what machine that is."""
    looking = asyncio.to_thread(_seen, directory, store)
    try:
        sees, host = await asyncio.wait_for(looking, _ANSWER_S)
    except OSError:  # also where it hangs
        sees, host = False, None
    return {
        "host": host or str(dask_worker.name),
        "slots": dask_worker.state.nthreads,
        "sees": sees,
        "machine": {
            "system": platform.system().lower(),
            "architecture": platform.machine(),
            "release": platform.release(),
            "memoryInBytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "cpu": {"coreCount": os.cpu_count() or 1},
        },
    }


def _seen(directory: str, store: str | None) -> tuple[bool, str | None]:
    """Whether a directory is here, and in that store, and how the store calls this host."""
    sees = is_in(directory, store)
    return sees, host_of(directory) if sees else None


def stop_here(dask_worker: Any) -> None:
    """End all attempts of this worker."""
    _keeper(dask_worker).stop()


async def read_files(paths: Sequence[str]) -> bool:
    """Read files whole, beside tasks, for the store to keep them; says whether it could."""
    try:
        for path in paths:
            await asyncio.to_thread(read_whole, path)
    except OSError:
        return False
    return True


def _keeper(worker: Any) -> Keeper:
    plugin: TaskPlugin = worker.plugins[_PLUGIN]
    return plugin.keeper


_WENT = Outcome(Result.WORKER_LOST, "its worker went away")


@dataclass
class _Host:
    """The workers of a host: how many slots each has free."""

    slots: dict[str, int] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def freest(self) -> str:
        return max(self.slots, key=lambda worker: self.slots[worker] - self.busy[worker])


class DaskCrew:
    """Hands attempts to the workers of a scheduler."""

    def __init__(self, client: Client, directory: str, store: str | None = None) -> None:
        """`store` is the one that `directory` is in, and must be in on each host."""
        self._client = client
        self._directory = directory
        self._store = store
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._hosts: dict[str, _Host] = {}
        self._host_of: dict[str, str] = {}
        self._begun: dict[str, tuple[str, Any]] = {}
        self._fetchers = ThreadPoolExecutor(_FETCHERS)
        client.register_plugin(TaskPlugin(directory, store))
        client.subscribe_topic("all", self._noticed)
        client.subscribe_topic(_TOPIC, self._noticed)
        for worker in client.scheduler_info(n_workers=-1)["workers"]:
            self._queue.put(("add-worker", worker))

    def tell(self, event: Event) -> None:
        """Have `wait` return an event; safe in the handler of a signal."""
        self._queue.put(event)

    def begin(self, key: str, host: str, order: Order) -> None:
        """Have a host make an attempt."""
        found = self._hosts[host]
        worker = found.freest()
        found.busy[worker] += 1
        future = self._client.submit(
            make_attempt, order, key=key, workers=[worker], pure=False, retries=0
        )
        self._begun[key] = (worker, future)
        future.add_done_callback(lambda _: self._queue.put(("ended", key)))

    def wait(self, timeout_s: float) -> list[Event]:
        """Return what happened."""
        events: list[Event] = []
        if self._client.status != "running":
            return [Broken("the scheduler is gone")]
        try:
            one = self._queue.get(timeout=timeout_s)
            while True:
                events += [one] if isinstance(one, Event) else self._understood(*one)
                one = self._queue.get_nowait()
        except queue.Empty:
            return events

    def fetch(self, host: str, paths: Sequence[str]) -> None:
        """Have a host read files, beside its tasks."""
        worker = self._hosts[host].freest()

        def fetched() -> None:
            is_whole = False
            with contextlib.suppress(Exception):  # a worker or scheduler that went
                answer = self._client.run(read_files, paths, workers=[worker])
                is_whole = bool(answer.get(worker))
            self._queue.put(Fetched(host, tuple(paths), is_whole))

        self._fetchers.submit(fetched)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that have joined."""
        return tuple(sorted(self._hosts))

    def make(self, files: Mapping[str, Mapping[str, int]], hints: Hints) -> None:
        """Have hosts make input files; `files` is by host, then bytes by path. Raises OSError."""
        made = [
            self._client.submit(
                make_files, part, hints, workers=list(self._hosts[host].slots), pure=False
            )
            for host, part in files.items()
        ]
        self._client.gather(made)

    def has_silent(self) -> bool:
        """Whether a worker was not heard of for longer than others, as when its host is lost."""
        if self._client.status != "running":
            return False
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        heard_s = [worker["last_seen"] for worker in workers]
        return bool(heard_s) and max(heard_s) - min(heard_s) > _SILENT_S

    def stop_tasks(self) -> None:
        """End all attempts, and do not wait for that: a worker that hangs does not answer."""

        def stop() -> None:
            with contextlib.suppress(Exception):  # a worker or scheduler that went
                self._client.run(stop_here, on_error="ignore")

        threading.Thread(target=stop, daemon=True).start()

    def close(self) -> None:
        """Let the workers go: what runs is ended."""
        self._fetchers.shutdown(wait=False, cancel_futures=True)
        if self._client.status == "running":
            self._client.unsubscribe_topic("all")
            self._client.unsubscribe_topic(_TOPIC)
            # A worker whose host is lost, and that the scheduler still counts, does not answer.
            with contextlib.suppress(OSError, TimeoutError):
                self._client.unregister_worker_plugin(_PLUGIN)

    def _noticed(self, event: tuple[float, Any]) -> None:
        """Take note of what the scheduler says; in a thread of the client."""
        told = event[1]
        if not isinstance(told, dict):
            return
        if told.get("action") in ("add-worker", "remove-worker"):
            self._queue.put((told["action"], told["worker"]))
        elif told.get("directory") == self._directory:
            self._queue.put(("sight", told))

    def _understood(self, what: str, about: Any) -> list[Event]:
        if what == "ended":
            return self._ended(about)
        if what == "sight":
            return self._saw(about["worker"], about["problem"], about["age_s"])
        return self._joined(about) if what == "add-worker" else self._left(about)

    def _saw(self, worker: str, problem: str, age_s: float) -> list[Event]:
        """A worker has lost sight of the store, or sees it again."""
        if not problem:
            return self._joined(worker)
        return self._left(worker, Outcome(Result.STORE_LOST, "the store is gone"), problem, age_s)

    def _ended(self, key: str) -> list[Event]:
        if key not in self._begun:
            return []
        if self._client.status != "running":
            return []  # the scheduler is gone: nothing is known of the attempt
        worker, future = self._begun.pop(key)
        self._free(worker)
        if future.status == "finished":
            outcome: Outcome = future.result(timeout=_ANSWER_S)
            # The worker lives, but the directory is gone from its host: it would fail every task.
            left = self._left(worker) if outcome.result is Result.WORKER_LOST else []
            return [*left, TaskEnded(key, outcome)]
        if future.status == "error":
            failure = future.exception(timeout=_ANSWER_S)
            is_killed = type(failure).__name__ == "KilledWorker"
            result = Result.WORKER_LOST if is_killed else Result.FAILED
            said = str(failure) or type(failure).__name__
            return [TaskEnded(key, Outcome(result, said))]
        return [TaskEnded(key, Outcome(Result.WORKER_LOST, f"its state is {future.status}"))]

    def _joined(self, worker: str) -> list[Event]:
        if worker in self._host_of:
            return []
        try:
            answers = self._client.run(describe, self._directory, self._store, workers=[worker])
        except OSError:  # it has gone already
            return []
        told = answers.get(worker)
        if told is None:
            return []
        if not told["sees"]:
            return [HostRefused(told["host"], f"its worker does not see {self._directory}")]
        host = self._hosts.setdefault(told["host"], _Host())
        host.slots[worker] = told["slots"]
        self._host_of[worker] = told["host"]
        return [HostJoined(told["host"], sum(host.slots.values()), told["machine"])]

    def _left(
        self, worker: str, outcome: Outcome = _WENT, problem: str = "", age_s: float = 0.0
    ) -> list[Event]:
        name = self._host_of.pop(worker, None)
        if name is None:
            return []
        host = self._hosts[name]
        del host.slots[worker]
        host.busy.pop(worker, None)
        lost = [key for key, (where, _) in self._begun.items() if where == worker]
        events: list[Event] = []
        for key in lost:
            _, future = self._begun.pop(key)
            future.cancel(force=True)
            events.append(TaskEnded(key, outcome))
        left = sum(host.slots.values())
        if not left:
            del self._hosts[name]
        first: Event = HostJoined(name, left) if left else HostLeft(name, problem, age_s)
        return [first, *events]

    def _free(self, worker: str) -> None:
        name = self._host_of.get(worker)
        if name is not None:
            self._hosts[name].busy[worker] -= 1
