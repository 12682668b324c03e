"""Waiting for the host of the data, weighed against moving them: whole runs on virtual time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from intarsia.schedule import Host, Policy, Task, TaskQueue, blind, least_cost

HOSTS = ("a", "b", "c", "d")
LINK = 12.5e6


@dataclass
class Job:
    """A task of a run: what it reads, how long it computes, and what is left of either."""

    file: str
    seconds: float
    left_bytes: float = 0.0
    source: str | None = None


@dataclass
class Lab:
    """Hosts with a slot each, whose links carry what all that read from them share evenly."""

    sizes: dict[str, int]
    held: dict[str, set[str]]
    running: dict[int, tuple[str, Job]] = field(default_factory=dict)

    def task(self, job: Job) -> Task:
        size = self.sizes[job.file]
        return Task(dict.fromkeys(sorted(self.held[job.file]), size), size)

    def begin(self, number: int, host: str, job: Job) -> None:
        holders = sorted(self.held[job.file])
        if host not in holders:
            job.left_bytes, job.source = float(self.sizes[job.file]), holders[0]
        self.running[number] = (host, job)

    def rate(self, job: Job) -> float:
        moving = [one for _, one in self.running.values() if one.left_bytes > 0]
        return LINK / sum(one.source == job.source for one in moving)

    def step(self) -> tuple[float, list[int]]:
        """Go on until something ends: how long that took, and the tasks that ended."""
        rates = {n: self.rate(job) for n, (_, job) in self.running.items() if job.left_bytes > 0}
        ends = [
            job.left_bytes / rates[n] if n in rates else job.seconds
            for n, (_, job) in self.running.items()
        ]
        took_s = min(ends)
        done = []
        for number, (host, job) in list(self.running.items()):
            if number in rates:
                job.left_bytes = max(0.0, job.left_bytes - took_s * rates[number])
                if job.left_bytes < 1:
                    job.left_bytes = 0.0
                    self.held[job.file].add(host)
                continue
            job.seconds -= took_s
            if job.seconds < 1e-9:
                del self.running[number]
                done.append(number)
        return took_s, done


def makespan_s(
    policy: Policy, sizes: dict[str, int], at: dict[str, str], tasks: list[tuple[str, float]]
) -> float:
    """Seconds that tasks take which are all ready at once."""
    lab = Lab(sizes, {file: {host} for file, host in at.items()})
    queue: TaskQueue[int] = TaskQueue(dict.fromkeys(HOSTS, 1), policy, link_bytes_per_s=LINK)
    jobs = {number: Job(*task) for number, task in enumerate(tasks)}
    waiting = dict(jobs)
    now_s = 0.0
    for number, job in jobs.items():
        queue.add(number, lab.task(job), now_s)
    while waiting or lab.running:
        for start in queue.start(now_s):
            lab.begin(start.key, start.host, waiting.pop(start.key))
        assert lab.running, "all tasks wait while every host is free"
        took_s, done = lab.step()
        now_s += took_s
        for number in done:
            queue.finish(number, now_s)
        for number, job in waiting.items():
            queue.update(number, lab.task(job))
    return now_s


def test_a_file_that_all_read_is_not_moved_to_hosts_that_would_be_late() -> None:
    # 38 MB cross the link in 3 s, to three hosts in 9: who has it does most tasks meanwhile.
    run = ({"db": 38_000_000}, {"db": "a"}, [("db", 0.1)] * 40)
    assert makespan_s(blind, *run) > 9
    assert makespan_s(least_cost, *run) < 4


def test_long_tasks_are_not_left_to_one_host() -> None:
    run = ({"db": 38_000_000}, {"db": "a"}, [("db", 10.0)] * 40)
    assert makespan_s(least_cost, *run) < 1.1 * makespan_s(blind, *run)


@pytest.mark.parametrize("seed", range(60))
def test_knowing_where_data_lie_is_hardly_ever_worse_than_not(seed: int) -> None:
    chance = random.Random(seed)
    files = [f"f{number}" for number in range(chance.randint(1, 12))]
    sizes = {file: chance.choice([100_000, 2_000_000, 40_000_000]) for file in files}
    at = {file: chance.choice(HOSTS) for file in files}
    length_s = chance.choice([0.01, 0.1, 1.0, 10.0])
    count = chance.randint(4, 60)
    tasks = [(chance.choice(files), length_s * chance.uniform(0.5, 1.5)) for _ in range(count)]
    knowing, not_knowing = (makespan_s(one, sizes, at, tasks) for one in (least_cost, blind))
    # Each host may begin a task too much or too few before it is known how long tasks take.
    moved_s = max(sizes.values()) / LINK
    assert knowing <= 1.1 * not_knowing + 1.5 * length_s + moved_s


def test_what_is_not_known_yet_is_found_while_waiting() -> None:
    queue: TaskQueue[str] = TaskQueue({"a": 1, "b": 1}, least_cost, link_bytes_per_s=10.0)
    queue.add("first", Task({"a": 50}, 50), 0.0)
    queue.add("second", Task({"a": 50}, 50), 0.0)
    assert [(start.key, start.host) for start in queue.start(0.0)] == [("first", "a")]
    # Moving takes 5 s. What has run for 4 s is taken to run for 4 s more.
    assert queue.start(4.0) == []
    assert [(start.key, start.host) for start in queue.start(5.1)] == [("second", "b")]


def test_links_that_are_in_use_are_told_as_what_is_left_of_them() -> None:
    seen: list[list[Host]] = []

    def watching(task: Task, hosts: Sequence[Host]) -> Host | None:
        seen.append(list(hosts))
        return blind(task, hosts)

    queue: TaskQueue[str] = TaskQueue({"b": 1, "c": 1}, watching, link_bytes_per_s=10.0)
    queue.add("first", Task({"a": 50}, 50), 0.0)
    queue.add("second", Task({"a": 50}, 50), 0.0)
    assert len(queue.start(0.0)) == 2
    assert [hosts[-1].link_bytes_per_s for hosts in seen] == [10.0, 5.0]
