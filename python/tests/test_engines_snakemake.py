"""What a queue and a store are told of the jobs of Snakemake, with jobs that are names alone."""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from intarsia.engines import snakemake_hints
from intarsia.engines.snakemake_graph import Jobs
from intarsia.engines.snakemake_hints import Hints
from intarsia.engines.snakemake_scheduler import Scheduler
from intarsia.locate import Located, Locations
from intarsia.run import tags as run_tags
from intarsia.run.hints import Cluster


@dataclass
class Job:
    """A job, as far as an executor asks."""

    jobid: int
    input: list[str]
    output: list[str]
    name: str = "rule"
    threads: int = 1
    in_group: bool = False
    is_norun: bool = False

    def is_group(self) -> bool:
        return self.in_group


@dataclass
class Dag:
    """All jobs."""

    jobs: list[Job] = field(default_factory=list)
    workflow: Any = None

    def needrun_jobs(self) -> Iterable[Job]:
        return iter(self.jobs)


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


def test_a_rule_that_names_files_and_runs_nothing_reads_none() -> None:
    dag = pairs()
    dag.jobs.append(Job(6, ["a", "b"], [], "all", is_norun=True))
    jobs = Jobs(dag, by_affinity=True)
    for job in dag.jobs[4:6]:
        jobs.add(job, NOTHING)
    assert jobs.began(dag.jobs[4], "n2") == {}


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


LARGE = 20_000_000


class Access(str):
    """A name of a file with a flag, as `access.*` gives it."""

    flags: Mapping[str, str]

    def __new__(cls, name: str, how: str) -> Self:
        found = super().__new__(cls, name)
        found.flags = {"access_pattern": how}
        return found


class Store:
    """Takes hints in place of a store, and has those of directories."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hints: dict[str, dict[str, str]] = {}
        self.calls = 0
        monkeypatch.setattr(run_tags, "tag", self._tag)
        monkeypatch.setattr(snakemake_hints, "tag", self._tag)
        for module in (run_tags, snakemake_hints):
            monkeypatch.setattr(module, "hints_on", lambda path: self.hints.get(path, {}))
        monkeypatch.setattr(os, "removexattr", lambda path, _: self.hints.pop(path))

    def _tag(self, paths: Iterable[Path | str], hints: Mapping[str, str]) -> dict[str, OSError]:
        self.calls += 1
        self.hints |= {str(path): dict(hints) for path in paths}
        return {}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    """A store whose working directory is a new one."""
    monkeypatch.chdir(tmp_path)
    return Store(monkeypatch)


def hints_for(jobs: list[Job], choice: str = "derived", said: list[str] | None = None) -> Hints:
    say = ([] if said is None else said).append
    return Hints(Dag(jobs), choice, Cluster(4), say)


def large(*paths: str) -> Locations:
    return at("n1", *paths, size_bytes=LARGE)


def test_flags_of_input_are_told_once_and_that_many_read_it_wins(store: Store) -> None:
    jobs = [Job(n, [Access("in", how)], [f"{n}"]) for n, how in enumerate(("random", "multi"))]
    jobs.append(Job(2, [Access("in", "sequential"), Access("far", "multi")], ["2"]))
    hints = hints_for(jobs, "flags")
    hints.begin(jobs[:1], at("n1", "in"))
    hints.begin(jobs[:1], at("n1", "in"))
    assert (store.hints, store.calls) == ({"in": {"pattern": "random"}}, 1)
    far = Located("far", problem="lies in no store")
    for job in jobs[1:]:
        hints.begin([job], Locations((*at("n1", "in").files, far)))
    assert (store.hints, store.calls) == ({"in": {"pattern": "broadcast"}}, 2)
    hints_for(jobs, "none").begin(jobs, at("n1", "in"))
    assert store.calls == 2


def test_what_many_jobs_read_is_spread_whatever_flags_say(store: Store) -> None:
    said: list[str] = []
    jobs = [Job(n, [Access("in", "sequential"), "small"], [f"{n}"]) for n in range(4)]
    hints = hints_for(jobs, said=said)
    hints.begin(jobs[:1], Locations((*large("in").files, *at("n1", "small").files)))
    assert store.hints == {"in": {"pattern": "broadcast"}}
    assert said == [
        ": in* -> rule: pattern=broadcast: tasks on up to 4 hosts read it",
        ": small* -> rule: no hint: it takes no longer to reach 4 hosts one by one",
    ]
    flags = hints_for(jobs, "flags")
    flags.begin(jobs[:1], large("in"))
    assert store.hints == {"in": {"pattern": "sequential"}}
    store.hints = {"in": {"pattern": "reuse"}}
    unflagged = [Job(n, ["in"], [f"{n}"]) for n in range(4)]
    hints_for(unflagged).begin(unflagged, large("in"))
    assert store.hints == {"in": {"pattern": "reuse"}}, "somebody has said so"
    # Two jobs are all that have to run still.
    store.hints.clear()
    hints_for(jobs[:2]).begin(jobs[:1], large("in"))
    assert store.hints == {"in": {"pattern": "sequential"}}


def gathering(*others: Job) -> list[Job]:
    parts = [Job(n, [], [f"parts/{n}", f"parts/{n}.index"], "part") for n in range(20)]
    inputs = [file for part in parts for file in part.output]
    return [*parts, *others, Job(99, inputs, ["total"], "total")]


def make(job: Job, size_bytes: int = LARGE) -> None:
    for file in job.output:
        path = Path(file)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.truncate(path, 10 if file.endswith("index") else size_bytes)


def test_what_one_job_gathers_has_its_group_from_its_directory_while_it_is_made(
    store: Store,
) -> None:
    jobs = gathering()
    hints = hints_for(jobs)
    for job in jobs[:3]:
        hints.begin([job], NOTHING)
        assert store.hints == {}, "nobody knows how large they are"
    for job in jobs[:20]:
        make(job)
        hints.done(job)
        hints.begin([job], NOTHING)
        is_gathered = job.jobid < 19
        assert store.hints == ({"parts": {"place": "collocate:total-99"}} if is_gathered else {})
    assert store.calls == 1
    hints.close()


def test_what_a_rule_names_that_runs_nothing_is_not_gathered(store: Store) -> None:
    jobs = gathering()
    jobs[-1].is_norun = True
    hints = hints_for(jobs)
    for job in jobs[:3]:
        hints.begin([job], NOTHING)
        make(job)
        hints.done(job)
    assert store.hints == {}


@pytest.mark.parametrize(
    ("others", "given", "size_bytes"),
    [
        ([Job(50, [], ["parts/else"])], {}, LARGE),
        ([Job(50, [], ["parts/deep/else"])], {}, LARGE),
        ([], {"pattern": "distribute"}, LARGE),
        ([], {}, 1000),
    ],
    ids=["others", "others-below", "a-hint-of-the-user", "small"],
)
def test_a_directory_that_is_not_all_for_one_job_gets_no_hint(
    others: list[Job], given: dict[str, str], size_bytes: int, store: Store
) -> None:
    jobs = gathering(*others)
    store.hints = {"parts": given}
    hints = hints_for(jobs)
    hints.begin(jobs[:1], NOTHING)
    make(jobs[0], size_bytes)
    hints.done(jobs[0])
    hints.begin(jobs[1:2], NOTHING)
    assert store.hints == {"parts": given}


def test_a_directory_has_no_hint_after_a_run_that_failed(store: Store) -> None:
    jobs = gathering()
    hints = hints_for(jobs)
    hints.begin(jobs[:1], NOTHING)
    make(jobs[0])
    hints.done(jobs[0])
    hints.begin(jobs[1:2], NOTHING)
    assert list(store.hints) == ["parts"]
    hints.close()
    hints.close()
    assert store.hints == {}


def test_what_is_known_of_sizes_outlives_jobs_that_come_later(store: Store) -> None:
    jobs = gathering()
    dag = Dag(jobs)
    hints = Hints(dag, "derived", Cluster(4), lambda _: None)
    hints.begin(jobs[:1], NOTHING)
    make(jobs[0])
    hints.done(jobs[0])
    # Behind a checkpoint.
    later = Job(50, [], ["later"])
    dag.jobs = [*jobs, later]
    hints.begin([later], NOTHING)
    hints.begin(jobs[1:2], NOTHING)
    assert store.hints == {"parts": {"place": "collocate:total-99"}}


def test_what_is_no_graph_of_files_has_the_hints_of_its_flags(store: Store) -> None:
    jobs = [Job(n, [Access("in", "multi")], ["same"]) for n in range(4)]
    hints_for(jobs).begin(jobs, large("in"))
    assert store.hints == {"in": {"pattern": "broadcast"}}


def test_a_scheduler_leaves_hints_to_who_knows_more(store: Store) -> None:
    jobs = [Job(n, ["in"], [f"{n}"]) for n in range(4)]
    for executor, is_main in (("intarsia", True), ("slurm-jobstep", False), ("slurm", True)):
        dag = Dag(jobs)
        plugin = SimpleNamespace(name=executor)
        dag.workflow = SimpleNamespace(executor_plugin=plugin, is_main_process=is_main)
        scheduler = Scheduler(dag, None, logging.getLogger("test"))
        scheduler._hints.begin(jobs[:1], large("in"))
        assert (store.calls > 0) == (executor == "slurm")
