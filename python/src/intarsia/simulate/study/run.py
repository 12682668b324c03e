"""Running the points of a study over `dask.distributed`, each at most once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dask.distributed import Client, LocalCluster, as_completed

from intarsia.simulate import binary
from intarsia.simulate.binary import SimulationError
from intarsia.simulate.progress import Progress
from intarsia.simulate.scenario import Scenario
from intarsia.simulate.study.point import Point
from intarsia.simulate.study.store import Envelopes, PointStore

_LOOPBACK = "127.0.0.1:0"


def run_points(
    points: Sequence[Point],
    store: PointStore,
    *,
    title: str = "points",
    scheduler: str | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> list[Envelopes]:
    """Return the envelopes of each point, in the order of `points`.

    What the store holds is not computed again. `scheduler` is the address of a running Dask
    scheduler whose workers can run the same binary; without it the points run on this machine,
    `workers` at a time (as many as there are cores).
    """
    found = binary.locate()
    # Every scenario is checked before the first one runs.
    keys = [point.key(found) for point in points]
    by_key = dict(zip(keys, points, strict=True))
    results: dict[str, Envelopes] = {}
    with Progress(title, len(by_key), quiet) as progress:
        for key in by_key:
            envelopes, problem = store.load(key)
            if problem:
                progress.say(problem)
            if envelopes is not None:
                results[key] = envelopes
        missing = {key: point for key, point in by_key.items() if key not in results}
        if results:
            progress.say(f"{title}: {len(results)} of {len(by_key)} points are there already")
        progress.expect(len(missing))
        if missing:
            cores = workers or len(os.sched_getaffinity(0))
            local = _Local(found.path, max(cores // len(missing), 1)) if not scheduler else None
            with _client(scheduler, min(cores, len(missing))) as client:
                for key, envelopes in _compute(client, missing, local):
                    if local and binary.locate() != found:
                        raise SimulationError(f"{found.path} was replaced meanwhile: begin again")
                    store.save(key, envelopes)
                    results[key] = envelopes
                    progress.step()
    return [results[key] for key in keys]


@dataclass(frozen=True)
class _Local:
    """How points run on this machine; a worker elsewhere finds the binary in its own way."""

    path: Path
    threads: int


def _compute(
    client: Client, missing: dict[str, Point], local: _Local | None
) -> Iterator[tuple[str, Envelopes]]:
    futures = {
        client.submit(_simulate, point.kind, point.scenario, local, key=key): key
        for key, point in missing.items()
    }
    try:
        for future in as_completed(futures):
            key = futures.pop(future)
            try:
                yield key, future.result()
            except SimulationError as error:
                raise SimulationError(f"point {missing[key]}: {error}") from error
    finally:
        if futures:
            client.cancel(list(futures))
            binary.stop_running()


def _simulate(kind: str, scenario: Scenario, local: _Local | None) -> Envelopes:
    """Run on a worker."""
    if local is None:
        return binary.simulate(binary.locate().path, kind, scenario)
    return binary.simulate(local.path, kind, scenario, local.threads)


@contextmanager
def _client(scheduler: str | None, threads: int) -> Iterator[Client]:
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SimulationError(f"no Dask scheduler answers at {scheduler}: {error}") from error
        with client, client.as_current():
            yield client
        return
    # Threads suffice: the work is done by processes of the binary, one a point. Without an address
    # Dask would offer its pages to the whole network.
    with (
        TemporaryDirectory(prefix="intarsia-dask-") as scratch,
        LocalCluster(
            n_workers=1,
            threads_per_worker=threads,
            processes=False,
            dashboard_address=_LOOPBACK,
            worker_dashboard_address=_LOOPBACK,
            local_directory=scratch,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        yield client
