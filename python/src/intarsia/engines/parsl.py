"""Parsl runs apps on the hosts where their input files lie.

hosts = ["node01", "node02"]
parsl.load(Config(executors=placed_executors(hosts, address="10.0.0.1")))

@python_app(executors=["intarsia"])
def work(inputs=(), outputs=()): ...
"""

from __future__ import annotations

import logging
import os
import pickle
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from parsl.app.errors import RemoteExceptionWrapper
from parsl.data_provider.data_manager import default_staging
from parsl.data_provider.files import File
from parsl.data_provider.staging import Staging
from parsl.dataflow.memoization import id_for_memo
from parsl.executors import HighThroughputExecutor
from parsl.executors.base import ParslExecutor
from parsl.executors.high_throughput.errors import ManagerLost
from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
from parsl.jobs.errors import TooManyJobFailuresError
from parsl.launchers.base import Launcher
from parsl.providers import LocalProvider

from intarsia.engines.parsl_sight import Sight, directories_of
from intarsia.engines.shell import SSH, on_host
from intarsia.locate import locate
from intarsia.schedule import Policy, Start, Task, TaskQueue, blind, delayed, least_cost
from intarsia.units import payload_rate

#: The label that apps give in `executors=`.
LABEL = "intarsia"
#: Rate of the hosts' links, where none is given.
LINK = "1gbit"
#: How long the first task waits for the workers of all hosts.
START_TIMEOUT_S = 120.0
#: A host whose workers are silent for so long is lost, until they are heard again.
SILENT_S = 30
_POLL_S = 0.1
#: How often workers of lost hosts are looked for, and waiting is weighed against moving again.
_LOOK_S = 1.0
_log = logging.getLogger(__name__)
_SCHEME = "intarsia"
_HTEX = "parsl.executors.high_throughput"


class StoreStaging(Staging):
    """Files `intarsia:///mnt/work/a` are used where they are: `/mnt/work/a`, on every host."""

    def can_stage_in(self, file: File) -> bool:
        """Whether it is a file of a store."""
        return bool(file.scheme == _SCHEME)

    def can_stage_out(self, file: File) -> bool:
        """Whether it is a file of a store."""
        return bool(file.scheme == _SCHEME)

    def stage_in(self, dm: Any, executor: str, file: File, parent_fut: Future[Any] | None) -> None:
        """Say where it is."""
        file.local_path = _path_of(file)

    def stage_out(self, dm: Any, executor: str, file: File, app_fu: Future[Any]) -> None:
        """Say where it is to be."""
        file.local_path = _path_of(file)


def _path_of(file: File) -> str:
    if file.netloc:
        raise ValueError(f"{file.url}: write an absolute path, as in intarsia:///mnt/work/a")
    return str(file.path)


@dataclass(frozen=True)
class _App:
    """A call that waits for a host, with the files among its arguments."""

    begin: Callable[[str], Future[Any]]
    files: list[str]


class PlacedExecutor(ParslExecutor):
    """Hands each task, when its dependencies are done, to the executor of a host by a policy."""

    def __init__(
        self,
        executors: Mapping[str, ParslExecutor],
        *,
        slots: int = 1,
        policy: Policy | None = None,
        patience_s: float | None = None,
        link: str = LINK,
        start_timeout_s: float = START_TIMEOUT_S,
        label: str = LABEL,
        storage_access: Sequence[Staging] | None = None,
    ) -> None:
        """`executors`: by the name that the store has for their host, with `slots` workers each.

        A task goes where it is done soonest, waiting for the host that holds its input against
        moving the rest over links of the rate `link`; with `patience_s` it waits so long for the
        host that holds most, whatever that costs. Raises ValueError for what is no rate.

        They stand in the configuration too, so that Parsl starts and ends them. Tasks begin when
        the workers of all hosts have come, and fail if one has none within `start_timeout_s`. A
        host whose workers are lost later gets no more tasks until it has workers again; its tasks
        fail, and go elsewhere where the configuration has `retries`. So it is where workers do not
        see the store of their files any more. Without any host for `start_timeout_s` what waits
        fails. Checkpoints know files by their names, and those that are read by their time too.
        """
        super().__init__()
        _have_checkpoints_know_files()
        self.label = label
        self.storage_access = list(storage_access or [])
        self._executors = dict(executors)
        self._sight = Sight(self._executors)
        self._absent = list(executors)
        self._look_s = _LOOK_S if patience_s is None else patience_s
        self._start_timeout_s = start_timeout_s
        self._lock = threading.Lock()
        self._tasks: dict[Future[Any], _App] = {}
        self._queue: TaskQueue[Future[Any]] = TaskQueue(
            dict.fromkeys(executors, slots),
            policy or _policy(patience_s),
            link_bytes_per_s=payload_rate(link),
            in_order=policy is blind,
        )
        self._slots = slots
        self._lost: set[str] = set()
        self._alone_since_s: float | None = None
        self._timer: threading.Timer | None = None
        #: What began: host, bytes of the input there, bytes of the input.
        self.placed: list[tuple[str, int, int]] = []

    def submit(
        self,
        func: Callable[..., Any],
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """Take a task whose dependencies are done; files among its arguments are its input.

        The first one waits for workers, so that none goes to a host that only looks free. Raises
        TimeoutError when a host has none.
        """
        self._wait_for_workers()
        read = {name: value for name, value in kwargs.items() if name != "outputs"}
        inputs = locate(_files_in([args, read]))
        future: Future[Any] = Future()

        def begin(host: str) -> Future[Any]:
            inner: Future[Any] = self._executors[host].submit(
                func, resource_specification, *args, **kwargs
            )
            return inner

        with self._lock:
            self._tasks[future] = _App(begin, [*_files_in([args, kwargs])])
            self._queue.add(future, Task.reading(inputs), time.monotonic())
        self._start()
        return future

    def _wait_for_workers(self) -> None:
        deadline_s = time.monotonic() + self._start_timeout_s
        while self._absent and time.monotonic() < deadline_s:
            self._absent = [host for host in self._absent if _is_absent(self._executors[host])]
            if self._absent:
                time.sleep(_POLL_S)
        if self._absent:
            raise TimeoutError(
                f"no workers came from {', '.join(self._absent)} within "
                f"{self._start_timeout_s:g} s; {self.run_dir}/submit_scripts has what they said"
            )

    def _start(self) -> None:
        with self._lock:
            starts = self._queue.start(time.monotonic())
            self.placed += [
                (start.host, start.task.local_bytes(start.host), start.task.input_bytes)
                for start in starts
            ]
            begun = [(start, self._tasks.pop(start.key)) for start in starts]
            self._look_again()
        for start, app in begun:
            try:
                inner = app.begin(start.host)
            except Exception as error:
                if _has_lost_its_workers(self._executors[start.host]):
                    self._wait_again(start, app)
                else:
                    self._end(start.key, error=error)
                continue
            inner.add_done_callback(partial(self._done, start, app))

    def _wait_again(self, start: Start[Future[Any]], app: _App) -> None:
        """Have a task wait for another host than the one that cannot take it."""
        self._look_for_workers()
        with self._lock:
            now_s = time.monotonic()
            self._queue.finish(start.key, now_s)
            self._tasks[start.key] = app
            self._queue.add(start.key, start.task, now_s)
            self._look_again()

    def _look_again(self) -> None:
        """Have `_start` called once more when what waits now may be placed otherwise.

        And soon, while a host is lost that may come back.
        """
        if len(self._queue) and self._timer is None:
            pause_s = min(self._look_s, _LOOK_S) if self._lost else self._look_s
            self._timer = threading.Timer(pause_s, self._time_passed)
            self._timer.daemon = True
            self._timer.start()

    def _time_passed(self) -> None:
        with self._lock:
            self._timer = None
        if self._lost:
            self._look_for_workers()
        self._start()

    def _look_for_workers(self) -> None:
        """Take hosts without workers or the store out, and those in again that have both."""
        self._sight.ask_again()
        unseen = self._sight.lost
        lost = {host for host, one in self._executors.items() if _has_lost_its_workers(one)}
        lost |= unseen
        now_s = time.monotonic()
        with self._lock:
            for host in lost - self._lost:
                self._queue.remove_host(host)
            for host in self._lost - lost:
                self._queue.set_host(host, self._slots)
            changed, self._lost = lost ^ self._lost, lost
            is_alone = len(lost) == len(self._executors)
            since_s = self._alone_since_s if is_alone and self._alone_since_s else now_s
            self._alone_since_s = since_s if is_alone else None
            given_up = list(self._tasks) if now_s - since_s > self._start_timeout_s else []
            for future in given_up:
                self._queue.discard(future)
                del self._tasks[future]
        self._tell(changed, unseen)
        for future in given_up:
            hosts = ", ".join(sorted(lost))
            future.set_exception(
                TimeoutError(f"no host has workers left that see the store, of {hosts}")
            )

    def _tell(self, changed: set[str], unseen: set[str]) -> None:
        """Log which hosts were lost, and which are back."""
        for host in sorted(changed):
            lost = "lost the store" if host in unseen else "no workers left"
            _log.warning("host %s has %s", host, lost if host in self._lost else "workers again")

    def _done(self, start: Start[Future[Any]], app: _App, inner: Future[Any]) -> None:
        """End a task; one that failed when it is known whether its host still has the store."""
        error = inner.exception()
        result = None if error else inner.result()
        if isinstance(error, (ManagerLost, TooManyJobFailuresError)):
            self._look_for_workers()
        # As such a result a worker says that the app raised an error.
        has_failed = isinstance(result, RemoteExceptionWrapper)
        directories = directories_of(app.files) if has_failed else []

        def end() -> None:
            if directories:
                self._look_for_workers()
            self._end(start.key, error=error, result=result)

        if directories:
            self._sight.ask(start.host, directories, end)
        else:
            end()

    def _end(self, outer: Future[Any], *, error: BaseException | None, result: Any = None) -> None:
        with self._lock:
            self._queue.finish(outer, time.monotonic())
        if error is None:
            outer.set_result(result)
        else:
            outer.set_exception(error)
        self._start()

    def shutdown(self) -> None:
        """Begin no more tasks; the executors of the hosts are ended by Parsl."""
        with self._lock:
            for future in list(self._tasks):
                self._queue.discard(future)
                future.cancel()
            self._tasks.clear()
            if self._timer is not None:
                self._timer.cancel()
        super().shutdown()


def _policy(patience_s: float | None) -> Policy:
    return least_cost if patience_s is None else partial(delayed, patience_s=patience_s)


def _is_absent(executor: ParslExecutor) -> bool:
    """Whether workers may still come; an executor that has failed says why to the tasks it gets."""
    connected = getattr(executor, "connected_managers", None)
    if connected is None or getattr(executor, "bad_state_is_set", False):
        return False
    return not connected()


def _has_lost_its_workers(executor: ParslExecutor) -> bool:
    """Whether no workers are there, although they have been, or none can be started any more."""
    return getattr(executor, "bad_state_is_set", False) or _is_absent(executor)


class HostLauncher(Launcher):
    """Runs the workers of a block on one host."""

    def __init__(self, host: str, shell: str = SSH) -> None:
        super().__init__(debug=False)
        self.host = host
        self.shell = shell

    def __call__(
        self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = ""
    ) -> str:
        """Return the command that runs `command` there."""
        return shlex.join(on_host(self.shell, self.host, command, Path.cwd()))


def placed_executors(
    hosts: Sequence[str],
    *,
    address: str,
    workers: int = 1,
    shell: str = SSH,
    patience_s: float | None = None,
    link: str = LINK,
    policy: Policy | None = None,
    silent_s: int = SILENT_S,
) -> list[ParslExecutor]:
    """Return executors for `Config(executors=...)`: one for each host, and one for apps to name.

    `hosts`: as the store names them and `shell` reaches them. `address`: of this host, to which
    the workers connect. `workers`: processes on each host. `patience_s`, `link`, `policy`: as of
    `PlacedExecutor`. `silent_s`: a host whose workers are not heard for so long is lost until they
    are.
    """
    pool = f"{shlex.quote(sys.executable)} -m {_HTEX}.process_worker_pool"
    by_host: dict[str, ParslExecutor] = {}
    for host in hosts:
        by_host[host] = HighThroughputExecutor(
            label=f"{LABEL}-{host}",
            address=address,
            max_workers_per_node=workers,
            cores_per_worker=1e-6,
            heartbeat_period=max(1, silent_s // 3),
            heartbeat_threshold=silent_s,
            # By this interpreter, whatever the PATH of a host names.
            launch_cmd=DEFAULT_LAUNCH_CMD.replace("process_worker_pool.py", pool, 1),
            interchange_launch_cmd=[sys.executable, "-m", "intarsia.engines.parsl_interchange"],
            provider=LocalProvider(
                init_blocks=1, min_blocks=1, max_blocks=1, launcher=HostLauncher(host, shell)
            ),
        )
    placed = PlacedExecutor(
        by_host,
        slots=workers,
        policy=policy,
        patience_s=patience_s,
        link=link,
        storage_access=[StoreStaging(), *default_staging],
    )
    return [*by_host.values(), placed]


def _have_checkpoints_know_files() -> None:
    """Have them take files among arguments, unless the program has done so itself."""
    if File not in id_for_memo.registry:
        id_for_memo.register(File)(_known_by)


def _known_by(file: File, output_ref: bool = False) -> bytes:
    """An output is known by its name; an input that was changed is another one."""
    known: list[str | int] = [str(file.url)]
    if not output_ref:
        with suppress(OSError):
            about = Path(file.path).stat()
            known += [about.st_size, about.st_mtime_ns]
    return pickle.dumps(known)


def _files_in(value: Any) -> Iterator[str]:
    if isinstance(value, os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _files_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _files_in(one)
