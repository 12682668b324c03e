"""The predictor decides as the scheduler does: both are held to the decisions recorded in FILE.

Run as a program, this records them anew.
"""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from intarsia.run.affinity import Affinity
from intarsia.run.graph import Graph
from intarsia.schedule import Task, TaskQueue, least_cost
from run_graphs import random_graph

FILE = Path(__file__).parents[2] / "crates/predict/tests/data/schedule.json"
QUEUES, AFFINITIES = 12, 6
STEPS = 40


def some_bytes(chance: random.Random, hosts: int) -> dict[str, int]:
    """Few hosts have some; now and then two have as many."""
    sizes = (1_000_000, chance.randint(1, 50_000_000))
    some = sorted(chance.sample(range(hosts), chance.randint(0, min(2, hosts))))
    return {str(host): chance.choice(sizes) for host in some}


def some_task(chance: random.Random, hosts: int, most_slots: int) -> Task:
    held = some_bytes(chance, hosts)
    input_bytes = max(held.values(), default=0) + chance.choice((0, 0, 7_000_000))
    slots = chance.randint(1, most_slots) if chance.random() < 0.2 else 1
    affinity = some_bytes(chance, hosts) if chance.random() < 0.4 else {}
    return Task(held, input_bytes, slots, affinity_by_host=affinity)


def as_list(by_host: dict[str, int]) -> list[list[int]]:
    return [[int(host), size_bytes] for host, size_bytes in by_host.items()]


def added(number: int, task: Task) -> dict[str, Any]:
    return {
        "add": number,
        "held": as_list(dict(task.bytes_by_host)),
        "input_bytes": task.input_bytes,
        "slots": task.slots,
        "affinity": as_list(dict(task.affinity_by_host)),
    }


def queue(chance: random.Random) -> dict[str, Any]:
    """What a queue decides while tasks come and end, and hosts get fewer slots and more."""
    slots = [chance.randint(1, 3) for _ in range(chance.randint(1, 5))]
    link = chance.choice((1e6, 12.5e6, 119e6))
    hosts = {str(host): count for host, count in enumerate(slots)}
    tasks = TaskQueue[int](hosts, least_cost, link_bytes_per_s=link)
    running: dict[int, str] = {}
    waiting: list[int] = []
    steps: list[dict[str, Any]] = []
    now_s, number = 0.0, 0
    for _ in range(STEPS):
        now_s += chance.choice((0.0, 0.25, 1.5))
        kind = chance.random()
        if kind < 0.45:
            for _ in range(chance.randint(1, 3)):
                task = some_task(chance, len(slots), max(slots))
                tasks.add(number, task, now_s)
                steps.append(added(number, task))
                waiting.append(number)
                number += 1
        elif kind < 0.55 and waiting:
            changed = chance.choice(waiting)
            task = some_task(chance, len(slots), max(slots))
            tasks.update(changed, task)
            steps.append(added(changed, task))
        elif kind < 0.6 and waiting:
            gone = waiting.pop(chance.randrange(len(waiting)))
            tasks.discard(gone)
            steps.append({"discard": gone})
        elif running:
            ended = chance.choice(sorted(running))
            steps.append({"finish": ended, "host": int(running.pop(ended)), "now_s": now_s})
            tasks.finish(ended, now_s)
        begun = tasks.start(now_s, at_most=1)
        while begun:
            (start,) = begun
            running[start.key] = start.host
            waiting.remove(start.key)
            steps.append({"next": [start.key, int(start.host)], "now_s": now_s})
            begun = tasks.start(now_s, at_most=1)
        steps.append({"next": None, "now_s": now_s})
    return {"slots": slots, "link_bytes_per_s": link, "tasks": number, "steps": steps}


def workload_of(graph: Graph) -> dict[str, Any]:
    return {
        "format": "intarsia-workload",
        "version": 1,
        "files": [
            {"name": name, "size_bytes": size_bytes}
            for name, size_bytes in graph.size_bytes.items()
        ],
        "tasks": [
            {"name": task.name, "reads": list(task.inputs), "writes": list(task.outputs)}
            for task in graph.tasks.values()
        ],
    }


def affinity(chance: random.Random) -> dict[str, Any]:
    """What is known of where tasks had best run, while they begin, and begin again."""
    graph = random_graph(chance, chance.randint(5, 25))
    files = sorted(graph.producer.keys() | graph.consumers.keys())
    graph = replace(graph, size_bytes={file: chance.randint(1, 9) * 100 for file in files})
    names = list(graph.tasks)
    at = {name: number for number, name in enumerate(names)}
    known = Affinity(graph)
    # Tasks that have to do with nobody else's are of no group, and first by themselves.
    steps: list[dict[str, Any]] = [{"turns": [at[name] for name in known.in_turns(names)]}]
    for _ in range(STEPS // 2):
        name = chance.choice(names)
        if chance.random() < 0.15:
            known.forget(name)
            steps.append({"forget": at[name]})
        else:
            host = chance.randint(0, 3)
            others = sorted(at[other] for other in known.began(name, str(host)))
            steps.append({"began": at[name], "host": host, "others": others})
        asked = chance.choice(names)
        steps.append({"of": at[asked], "bytes": sorted(as_list(dict(known.of(asked))))})
    return {"workload": workload_of(graph), "steps": steps}


def decisions() -> dict[str, Any]:
    chance = random.Random(1)
    return {
        "queues": [queue(chance) for _ in range(QUEUES)],
        "affinities": [affinity(chance) for _ in range(AFFINITIES)],
    }


def test_the_scheduler_decides_as_recorded() -> None:
    assert json.loads(FILE.read_text()) == decisions()


if __name__ == "__main__":
    FILE.write_text(json.dumps(decisions(), separators=(",", ":")) + "\n")
