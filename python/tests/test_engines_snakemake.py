"""What a queue is told of the jobs of Snakemake, with jobs that are names alone."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from intarsia.engines.snakemake_graph import Jobs
from intarsia.locate import Located, Locations


@dataclass
class Job:
    """A job, as far as an executor asks."""

    jobid: int
    input: list[str]
    output: list[str]
    name: str = "rule"
    threads: int = 1
    in_group: bool = False

    def is_group(self) -> bool:
        return self.in_group


@dataclass
class Dag:
    """All jobs."""

    jobs: list[Job] = field(default_factory=list)


def at(host: str, *paths: str, size_bytes: int = 100) -> Locations:
    """Files that lie on a host."""
    return Locations(tuple(Located(path, size_bytes, {host: size_bytes}) for path in paths))


NOTHING = Locations(())


def pairs() -> Dag:
    tiles = [Job(number, [], [f"t{number}"]) for number in range(4)]
    merges = [Job(4, ["t0", "t1"], ["a"]), Job(5, ["t2", "t3"], ["b"])]
    return Dag([*tiles, *merges])


def test_a_job_that_begins_says_where_others_had_best_run() -> None:
    dag = pairs()
    jobs = Jobs(dag, by_affinity=True)
    for job in dag.jobs[:4]:
        assert not jobs.add(job, NOTHING).affinity_by_host
    news = jobs.began(dag.jobs[0], "n2")
    assert list(news) == [1]
    assert set(news[1].affinity_by_host) == {"n2"}
    assert Jobs(dag, by_affinity=False).began(dag.jobs[0], "n2") == {}


def test_a_host_keeps_what_a_job_has_read_until_it_is_lost(tmp_path: Path) -> None:
    made = tmp_path / "x"
    made.write_text("x")
    dag = Dag([Job(0, ["in"], [str(made)]), Job(1, ["in"], ["y"])])
    jobs = Jobs(dag, by_affinity=True)
    for job in dag.jobs:
        assert jobs.add(job, at("n1", "in")).bytes_by_host == {"n1": 100}
    jobs.began(dag.jobs[0], "n2")
    news = jobs.done(dag.jobs[0], "n2")
    assert news[1].bytes_by_host == {"n1": 100, "n2": 100}
    jobs.lost("n2")
    assert jobs.add(dag.jobs[1], at("n1", "in")).bytes_by_host == {"n1": 100}


def test_jobs_that_come_later_are_known_once_one_waits() -> None:
    dag = Dag([Job(0, [], ["x"])])
    jobs = Jobs(dag, by_affinity=True)
    jobs.add(dag.jobs[0], NOTHING)
    dag.jobs += [Job(1, ["x"], ["y"]), Job(2, ["x", "later"], ["z"])]
    assert jobs.add(dag.jobs[1], at("n1", "x")).bytes_by_host == {"n1": 100}
    jobs.began(dag.jobs[1], "n1")
    # What a job reads may be known only now.
    dag.jobs[1].input.append("found")
    assert jobs.done(dag.jobs[1], "n1") == {}


@pytest.mark.parametrize(
    "jobs",
    [
        [Job(0, ["x"], ["x"])],
        [Job(0, ["in"], ["x"]), Job(1, ["in"], ["x"])],
        [Job(0, ["in"], ["y"], in_group=True)],
    ],
    ids=["updates", "two-make-it", "group"],
)
def test_what_is_no_graph_of_files_goes_by_its_input_alone(jobs: list[Job]) -> None:
    known = Jobs(Dag(jobs), by_affinity=True)
    for job in jobs:
        task = known.add(job, at("n1", *job.input))
        assert (task.bytes_by_host, task.affinity_by_host) == ({"n1": 100}, {})
        assert known.began(job, "n1") == known.done(job, "n1") == {}
