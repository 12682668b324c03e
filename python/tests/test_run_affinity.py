"""Tasks run where what is read beside their outputs is made."""

import random
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from intarsia.run.affinity import Affinity
from intarsia.run.attempts import History
from intarsia.run.engine import Engine
from intarsia.run.graph import Graph, Task, graph_of
from intarsia.run.hints import Cluster, hints_of
from intarsia.run.journal import Journal
from intarsia.run.plan import plan_of
from intarsia.run.settings import Settings
from intarsia.schedule import Host, TaskQueue, least_cost
from intarsia.schedule import Task as Placed
from run_graphs import HereCrew, Quiet, make_here, random_graph

HOSTS = ("a", "b", "c")
TILES = 6
TILE_BYTES = 50_000_000


def bands(sizes: bool = True) -> Graph:
    """Three rows of tiles, each overlapping the next one; the overlaps are looked at."""
    tasks, size_bytes = [], {}
    for band in range(3):
        for tile in range(TILES):
            tasks.append(Task(f"tile-{band}-{tile}", "make", (), (f"{band}.{tile}",), stage="tile"))
            size_bytes[f"{band}.{tile}"] = TILE_BYTES
    for band in range(3):
        for tile in range(TILES - 1):
            both = (f"{band}.{tile}", f"{band}.{tile + 1}")
            tasks.append(Task(f"overlap-{band}-{tile}", "look", both, (f"{band}.{tile}.txt",)))
    return graph_of("bands", "bands", tasks, size_bytes if sizes else {})


def hosts_of_tiles(graph: Graph, directory: Path, *, by_affinity: bool) -> dict[str, set[str]]:
    """Run a graph; returns where the tiles of each band were made."""
    crew = HereCrew(dict.fromkeys(HOSTS, 1), make_here)
    settings = Settings(directory, directory / "run", least_cost, by_affinity=by_affinity)
    history = History(graph, directory, directory / "run", "local")
    with Journal(directory / "run/journal") as journal:
        plan = plan_of(graph, directory, journal.made)
        to_run = set(plan.to_run)
        Engine(graph, plan.lineage, to_run, journal, crew, settings, history, Quiet()).run()
    assert history.is_well
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, host in crew.begun:
        if name.startswith("tile"):
            found[name.split("-")[1]].add(host)
    return found


@pytest.mark.parametrize("sizes", [True, False])
def test_what_is_read_together_is_made_together(tmp_path: Path, sizes: bool) -> None:
    found = hosts_of_tiles(bands(sizes), tmp_path, by_affinity=True)
    assert sorted(len(hosts) for hosts in found.values()) == [1, 1, 1], found
    assert len(set.union(*found.values())) == len(HOSTS), "no host is left idle"


def test_without_affinity_tasks_are_dealt_over_all_hosts(tmp_path: Path) -> None:
    found = hosts_of_tiles(bands(), tmp_path, by_affinity=False)
    assert max(len(hosts) for hosts in found.values()) > 1, found


def test_a_task_is_drawn_to_the_host_that_has_most_of_what_is_read_beside_its_output() -> None:
    affinity = Affinity(bands())
    assert affinity.of("tile-0-1") == {}
    assert affinity.began("tile-0-0", "a") == {"tile-0-1"}
    assert affinity.of("tile-0-1") == {"a": TILE_BYTES}
    affinity.began("tile-0-2", "b")
    assert affinity.of("tile-0-1") == {"a": TILE_BYTES, "b": TILE_BYTES}
    affinity.forget("tile-0-0")
    assert affinity.of("tile-0-1") == {"b": TILE_BYTES}
    affinity.began("tile-0-2", "c")
    assert affinity.of("tile-0-1") == {"c": TILE_BYTES}, "it was begun once more elsewhere"


def test_sizes_that_are_not_known_are_those_of_the_stage() -> None:
    affinity = Affinity(bands(sizes=False))
    affinity.made("tile-1-0", [300, 500])
    affinity.began("tile-0-0", "a")
    assert affinity.of("tile-0-1") == {"a": 400}


@pytest.mark.parametrize("seed", range(20))
def test_what_has_begun_and_is_forgotten_leaves_nothing(seed: int) -> None:
    chance = random.Random(seed)
    graph = random_graph(chance, 30)
    # No two hosts have as much of anything.
    sizes = {file: chance.randint(1, 10**12) for file in graph.producer}
    graph = replace(graph, size_bytes=sizes)
    affinity = Affinity(graph)
    where: dict[str, str] = {}
    for _ in range(60):
        name = chance.choice(list(graph.tasks))
        if chance.random() < 0.3:
            affinity.forget(name)
            where.pop(name, None)
        else:
            where[name] = chance.choice(HOSTS)
            affinity.began(name, where[name])
    for name in graph.tasks.keys() - where.keys():
        assert affinity.of(name) == expected(graph, where, name)
    for name in list(where):
        affinity.forget(name)
    assert all(not affinity.of(name) for name in graph.tasks)


def expected(graph: Graph, where: dict[str, str], name: str) -> Counter[str]:
    """Say the same by counting anew."""
    found: Counter[str] = Counter()
    outputs = set(graph.tasks[name].outputs)
    for reader in graph.tasks.values():
        held: Counter[str] = Counter()
        for file in reader.inputs:
            if graph.producer.get(file) in where:
                held[where[graph.producer[file]]] += graph.size_bytes[file]
        if outputs & set(reader.inputs) and held:
            ((host, there),) = held.most_common(1)
            wanted = sum(graph.size_bytes[file] for file in outputs & set(reader.inputs))
            found[host] += min(wanted, there)
    return found


def test_a_free_host_takes_the_task_that_has_most_to_do_with_it() -> None:
    queue: TaskQueue[str] = TaskQueue({"a": 1, "b": 1}, least_cost)
    queue.add("far", Placed(affinity_by_host={"b": 5}), 0.0)
    queue.add("mixed", Placed({"a": 1}, 1, affinity_by_host={"a": 1, "b": 2}), 0.0)
    queue.add("near", Placed(affinity_by_host={"a": 5}), 0.0)
    begun = {start.key: start.host for start in queue.start(0.0)}
    assert set(begun) == {"far", "near"}


def test_tasks_that_have_to_do_with_other_hosts_come_after_those_that_do_not() -> None:
    queue: TaskQueue[str] = TaskQueue({"a": 1, "b": 1}, least_cost)
    for key in ("first", "drawn", "free"):
        queue.add(key, Placed(), 0.0)
    (start,) = queue.start(0.0, at_most=1)
    assert start.key == "first"
    queue.update("drawn", Placed(affinity_by_host={start.host: 1000}))
    (start,) = queue.start(0.0)
    assert start.key == "free"


def test_what_later_tasks_move_is_weighed_against_waiting() -> None:
    task = Placed({"a": 100}, 100, affinity_by_host={"b": 300})
    assert (task.near_bytes("a"), task.far_bytes("a")) == (100, 300)
    assert (task.near_bytes("b"), task.far_bytes("b")) == (300, 100)
    hosts = [Host("a", link_bytes_per_s=100), Host("b", 0, 1.0, link_bytes_per_s=100)]
    assert least_cost(task, hosts) is None, "to wait for b takes 1 s, and saves 2"
    busy = [hosts[0], Host("b", 0, 3.0, link_bytes_per_s=100)]
    assert least_cost(task, busy) == hosts[0]


def test_files_whose_readers_follow_them_get_no_hint_that_moves_them() -> None:
    graph = bands()
    readers = [Task(f"sum-{band}", "sum", tuple(f"{band}.{n}" for n in range(4))) for band in "01"]
    again = [task for task in graph.tasks.values() if not task.name.startswith("overlap-0")]
    graph = graph_of("sums", "sums", [*again, *readers], graph.size_bytes)
    apart = hints_of(graph, Cluster.linked(4, 12.5e6))
    assert apart["0.0"] == {"place": "collocate:sum-0"}
    assert apart["1.1"] == {"pattern": "broadcast"}
    together = hints_of(graph, Cluster.linked(4, 12.5e6, by_affinity=True))
    assert "0.0" not in together
    assert "1.1" not in together


def test_what_many_tasks_read_by_itself_is_spread_all_the_same() -> None:
    tasks = [Task("make", "make", (), ("big",))]
    tasks += [Task(f"read-{n}", "read", ("big",), (f"{n}.txt",)) for n in range(6)]
    graph = graph_of("fan", "fan", tasks, {"big": TILE_BYTES})
    hints = hints_of(graph, Cluster.linked(4, 12.5e6, by_affinity=True))
    assert hints["big"] == {"pattern": "broadcast"}
