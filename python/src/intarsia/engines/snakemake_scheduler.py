"""Snakemake lets those jobs go first whose data lies on hosts with free cores.

`snakemake --scheduler intarsia` decides which of the jobs that are ready begin, within what
Snakemake has left of its resources. An executor places them: the one of this package, or that of
Slurm, which is told to prefer the host.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.settings import SchedulerSettingsBase

from intarsia.engines.shell import host_names
from intarsia.locate import Located, Locations, locate
from intarsia.schedule import Host, Task, matched

_EXTRA = "slurm_extra"


# Snakemake reads the types of the fields, so that annotations of this file are no strings.
@dataclass
class SchedulerSettings(SchedulerSettingsBase):
    """Options of the command line, each with `--scheduler-intarsia-` before it."""

    hosts: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Hosts that run jobs, with commas between, as the store names them. Default: "
            "all that hold input, without a bound on their cores. Example: node01,node02"
        },
    )
    cores: int = field(
        default=1,
        metadata={"help": "Cores for jobs on each of the hosts; a job takes its threads."},
    )
    slurm: bool = field(
        default=False,
        metadata={
            "help": "Have Slurm prefer the node that holds most input of a job: --prefer in its "
            "resource slurm_extra, unless the rule has one. Nodes have their names as features."
        },
    )


class Scheduler(SchedulerBase):
    """Chooses among jobs by where their input lies, and within priorities and resources."""

    def __post_init__(self) -> None:
        settings: SchedulerSettings = self.settings or SchedulerSettings()
        if settings.cores < 1:
            raise WorkflowError("--scheduler-intarsia-cores: 1 or more are expected")
        self._settings = settings
        self._names = host_names(settings.hosts or "")
        self._running: dict[Any, tuple[str, int]] = {}

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, Any],
        input_sizes: Mapping[Any, int | None],
    ) -> Sequence[Any]:
        """Return jobs that fit into the resources: by priority, data, and size of their input."""
        self._forget_ended(remaining_jobs)
        tasks = _tasks_of(selectable_jobs)
        chosen = matched(tasks, self._hosts(tasks.values()))
        left = dict(available_resources)
        found = []
        for job in sorted(selectable_jobs, key=lambda job: _rank(job, tasks[job], chosen)):
            needs = {name: job.scheduler_resources.get(name, 0) for name in left}
            if all(needs[name] <= left[name] for name in left):
                left = {name: left[name] - needs[name] for name in left}
                found.append(job)
                self._begin(job, tasks[job], chosen.get(job))
        return found

    def _hosts(self, tasks: Iterable[Task]) -> list[Host]:
        """Return the hosts with the cores that are free, as far as this scheduler knows."""
        if not self._names:
            holding = sorted({host for task in tasks for host in task.bytes_by_host})
            return [Host(name, sys.maxsize) for name in holding]
        busy: Counter[str] = Counter()
        for host, cores in self._running.values():
            busy[host] += cores
        return [Host(name, max(0, self._settings.cores - busy[name])) for name in self._names]

    def _begin(self, job: Any, task: Task, host: str | None) -> None:
        host = host or task.nearest
        if host is None:
            return
        self._running[job] = (host, task.slots)
        if self._settings.slurm:
            # A job that is tried again has it already.
            with suppress(ValueError):
                for one in _single(job):
                    one.add_aux_resource(_EXTRA, f"--prefer={host}")

    def _forget_ended(self, remaining: Iterable[Any]) -> None:
        """Forget jobs that are done, and those that are to be tried again."""
        again = set(remaining)
        self._running = {
            job: where
            for job, where in self._running.items()
            if job not in again and not all(map(self.dag.finished, _single(job)))
        }


def _tasks_of(jobs: Sequence[Any]) -> dict[Any, Task]:
    """Say of each job where its input lies, asked for all of them at once."""
    inputs = {job: [str(path) for one in _single(job) for path in one.input] for job in jobs}
    paths = list(dict.fromkeys(path for some in inputs.values() for path in some))
    found: dict[str, Located] = dict(zip(paths, locate(paths).files, strict=True))
    return {
        job: Task.reading(
            Locations(tuple(found[path] for path in dict.fromkeys(inputs[job]))),
            slots=max(1, job.scheduler_resources.get("_cores", 1)),
        )
        for job in jobs
    }


def _rank(job: Any, task: Task, chosen: Mapping[Any, str]) -> tuple[int, bool, int]:
    return -job.priority, job not in chosen, -task.input_bytes


def _single(job: Any) -> Sequence[Any]:
    """Return the jobs of a group, or the job itself."""
    jobs = getattr(job, "jobs", [job])
    # The interface has a method where Snakemake 9.27 has a property.
    return list(jobs() if callable(jobs) else jobs)
