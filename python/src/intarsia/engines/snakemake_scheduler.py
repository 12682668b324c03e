"""Snakemake lets those jobs go first whose data lies on hosts with free cores.

`snakemake --scheduler intarsia` decides which of the jobs that are ready begin, within what
Snakemake has left of its resources. An executor places them: the one of this package, or that of
Slurm, which is told to prefer the host.
"""

import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.settings import SchedulerSettingsBase

from intarsia.engines.shell import host_names
from intarsia.engines.snakemake_graph import single_jobs
from intarsia.engines.snakemake_hints import CHOICES, HELP, Hints, told_by
from intarsia.locate import Located, Locations, locate
from intarsia.run.hints import Cluster
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
    hints: str = field(
        default=CHOICES[0],
        metadata={
            "help": f"{HELP} With --executor intarsia that of --intarsia-hints counts.",
            "choices": CHOICES,
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
        self._selected: set[Any] = set()
        choice = settings.hints if _is_to_hint(self.dag) else "none"
        cluster = Cluster(len(self._names) or sys.maxsize)
        self._hints = Hints(self.dag, choice, cluster, told_by(self.logger))
        # Nobody tells a scheduler that the workflow has ended.
        weakref.finalize(self, self._hints.close)

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, Any],
        input_sizes: Mapping[Any, int | None],
    ) -> Sequence[Any]:
        """Return jobs that fit into the resources: by priority, data, and size of their input."""
        self._forget_ended(remaining_jobs)
        inputs = _inputs_of(selectable_jobs)
        tasks = {job: _task_of(job, inputs[job]) for job in selectable_jobs}
        chosen = matched(tasks, self._hosts(tasks.values()))
        left = dict(available_resources)
        found = []
        for job in sorted(selectable_jobs, key=lambda job: _rank(job, tasks[job], chosen)):
            needs = {name: job.scheduler_resources.get(name, 0) for name in left}
            if all(needs[name] <= left[name] for name in left):
                left = {name: left[name] - needs[name] for name in left}
                found.append(job)
                self._begin(job, tasks[job], chosen.get(job))
                self._hints.begin(single_jobs(job), inputs[job])
                self._selected.update(single_jobs(job))
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
                for one in single_jobs(job):
                    one.add_aux_resource(_EXTRA, f"--prefer={host}")

    def _forget_ended(self, remaining: Iterable[Any]) -> None:
        """Forget jobs that are done, and those that are to be tried again."""
        for job in list(filter(self.dag.finished, self._selected)):
            self._selected.remove(job)
            self._hints.done(job)
        again = set(remaining)
        self._running = {
            job: where
            for job, where in self._running.items()
            if job not in again and not all(map(self.dag.finished, single_jobs(job)))
        }


def _is_to_hint(dag: Any) -> bool:
    """Whether hints are for the scheduler to set.

    The executor of this package knows more of when jobs begin and end; and a job of another one is
    a Snakemake too, whose scheduler has one job.
    """
    workflow = getattr(dag, "workflow", None)
    executor = getattr(getattr(workflow, "executor_plugin", None), "name", None)
    return executor != "intarsia" and getattr(workflow, "is_main_process", True)


def _inputs_of(jobs: Sequence[Any]) -> dict[Any, Locations]:
    """Say of each job where its input lies, asked for all of them at once."""
    inputs = {job: [str(path) for one in single_jobs(job) for path in one.input] for job in jobs}
    paths = list(dict.fromkeys(path for some in inputs.values() for path in some))
    found: dict[str, Located] = dict(zip(paths, locate(paths).files, strict=True))
    return {
        job: Locations(tuple(found[path] for path in dict.fromkeys(inputs[job]))) for job in jobs
    }


def _task_of(job: Any, found: Locations) -> Task:
    return Task.reading(found, slots=max(1, job.scheduler_resources.get("_cores", 1)))


def _rank(job: Any, task: Task, chosen: Mapping[Any, str]) -> tuple[int, bool, int]:
    return -job.priority, job not in chosen, -task.input_bytes
