"""Dask's scheduler with the placement of tasks, without a store: what lies where is made up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from distributed import Client, Event, Future, LocalCluster, get_worker
from intarsia.engines import dask as beside_data
from intarsia.locate import Located, Locations

TASKS = 6
LIMIT_S = 60.0


def wait_and_say(path: str, number: int) -> str:
    """Wait for the test, and say which worker did it."""
    assert Event(f"go-{number}").wait(LIMIT_S), path
    return str(get_worker().address)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Two workers, of the hosts `a` and `b`; every file lies on `a`."""

    def on_a(paths: list[str]) -> Locations:
        return Locations(tuple(Located(path, 1 << 20, {"a": 1 << 20}) for path in paths))

    monkeypatch.setattr(beside_data, "host_of", lambda _: "a")
    monkeypatch.setattr(beside_data, "locate", on_a)
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        on_hosts = dict(zip("ab", ([worker] for worker in workers(client)), strict=True))
        client.register_plugin(beside_data.Placement("/store", LIMIT_S, on_hosts))
        yield client


def workers(client: Client) -> list[str]:
    return list(client.cluster.scheduler.workers)


def tasks_of(client: Client, worker: str) -> list[str]:
    return [str(task.key) for task in client.cluster.scheduler.workers[worker].processing]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def submit(client: Client) -> list[Future]:
    """Begin tasks that wait; by default Dask takes each for half a second."""
    return [client.submit(wait_and_say, f"/store/{i}", i) for i in range(TASKS)]


def finish(client: Client, numbers: Iterable[int]) -> None:
    for number in numbers:
        Event(f"go-{number}", client=client).set()


def test_an_idle_worker_takes_no_task_from_beside_its_data(client: Client) -> None:
    on_a, _ = workers(client)
    tasks = submit(client)
    wait_for(lambda: len(tasks_of(client, on_a)) == TASKS)
    for _ in range(3):
        client.cluster.scheduler.extensions["stealing"].balance()
    finish(client, range(TASKS))
    assert client.gather(tasks) == [on_a] * TASKS


def test_an_idle_worker_takes_tasks_from_a_host_that_is_late(client: Client) -> None:
    on_a, on_b = workers(client)
    tasks = submit(client)
    wait_for(lambda: len(tasks_of(client, on_a)) == TASKS)
    client.cluster.scheduler.plugins["intarsia"]._patience_s = 0.0
    finish(client, [0])
    assert tasks[0].result(LIMIT_S) == on_a
    wait_for(lambda: tasks_of(client, on_b))
    finish(client, range(1, TASKS))
    assert on_b in client.gather(tasks)


def test_tasks_go_on_without_the_worker_beside_their_data(client: Client) -> None:
    on_a, on_b = workers(client)
    tasks = submit(client)
    client.retire_workers([on_a], remove=True, close_workers=True)
    finish(client, range(TASKS))
    assert set(client.gather(tasks)) <= {on_a, on_b}
    assert workers(client) == [on_b]
