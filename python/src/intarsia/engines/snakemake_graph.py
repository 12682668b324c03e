"""The jobs of a Snakemake workflow as a graph of tasks, and what a queue is told of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from intarsia.locate import Locations
from intarsia.run.affinity import Affinity
from intarsia.run.graph import Graph, GraphError, Task, graph_of
from intarsia.run.kept import Kept
from intarsia.run.waiting import Waiting
from intarsia.schedule import Task as Placed


class Jobs:
    """The jobs that wait: where their input lies, and what is read beside their output.

    Jobs that come to the workflow later, behind a checkpoint, are known once one of them waits.
    """

    def __init__(self, dag: Any, *, by_affinity: bool) -> None:
        self._dag = dag
        self._by_affinity = by_affinity
        self._kept = Kept()
        self._graph: Graph | None = None
        self._is_no_graph = False
        self._waiting: Waiting | None = None

    def add(self, job: Any, found: Locations) -> Placed:
        """Take a job that waits, for the first time or again, whose input is `found`."""
        waiting = self._known(job)
        if waiting is None:
            return Placed.reading(found, slots=job.threads)
        name = name_of(job)
        waiting.undone(name)
        waiting.add(name, found)
        return waiting.task(name)

    def began(self, job: Any, host: str) -> dict[Any, Placed]:
        """A job begins on a host; returns what is known now of jobs that wait."""
        waiting = self._known(job)
        return {} if waiting is None else _news(waiting, waiting.began(name_of(job), host))

    def done(self, job: Any, host: str) -> dict[Any, Placed]:
        """A job is done, on a host that keeps what it has read; what is known now of others."""
        waiting = self._known(job)
        if waiting is None:
            return {}
        waiting.done(name_of(job), sizes_of(job.output).values())
        return _news(waiting, waiting.readers(self._kept.read(map(str, job.input), host)))

    def lost(self, host: str) -> None:
        """A host is gone, and what it kept."""
        self._kept.forget((), host)

    def _known(self, job: Any) -> Waiting | None:
        """What knows a job; None for a group of jobs, and where the jobs are no graph of files."""
        if job.is_group() or self._is_no_graph:
            return None
        if self._graph is None or name_of(job) not in self._graph.tasks:
            self._graph = graph_of_jobs(self._dag.jobs)
            if self._graph is None:
                self._is_no_graph = True
                return None
            affinity = Affinity(self._graph) if self._by_affinity else None
            self._waiting = Waiting(self._graph, lambda found, _: self._kept.known(found), affinity)
        return self._waiting


def graph_of_jobs(jobs: Iterable[Any]) -> Graph | None:
    """Return single jobs as a graph of files; None where they are none.

    Then a file is updated in place: several jobs make it, or one that reads it. Rules that run
    nothing, as `all`, are left out: they name files, and read none.
    """
    run = (job for job in jobs if not getattr(job, "is_norun", False))
    try:
        return graph_of("Snakemake", "workflow", map(_task_of, run))
    except GraphError:
        return None


def single_jobs(job: Any) -> Sequence[Any]:
    """Return the jobs of a group, or the job itself."""
    jobs = getattr(job, "jobs", [job])
    # The interface has a method where Snakemake 9.27 has a property.
    return list(jobs() if callable(jobs) else jobs)


def sizes_of(files: Iterable[Any]) -> dict[str, int]:
    """Return how large files are, those that are there."""
    found = {}
    for file in files:
        # A directory, or what another job has taken away already.
        with suppress(OSError):
            found[str(file)] = os.stat(file).st_size  # noqa: PTH116 - there may be thousands
    return found


def name_of(job: Any) -> str:
    """Return the name of a single job in the graph."""
    return f"{job.name}-{job.jobid}"


def _news(waiting: Waiting, names: Iterable[str]) -> dict[Any, Placed]:
    return {int(name.rpartition("-")[2]): waiting.task(name) for name in names}


def _task_of(job: Any) -> Task:
    return Task(
        name_of(job),
        "",
        tuple(map(str, dict.fromkeys(job.input))),
        tuple(map(str, job.output)),
        stage=job.name,
        cores=max(1, job.threads),
    )
