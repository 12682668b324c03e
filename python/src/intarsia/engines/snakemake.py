"""Snakemake runs jobs on the hosts where their input files lie: `snakemake --executor intarsia`.

The working directory is in a store that all hosts have mounted at the same place. Jobs are begun
by `ssh`, on hosts with free cores.
"""

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from intarsia.engines.begun import Begun
from intarsia.engines.shell import SSH, host_names, on_host
from intarsia.engines.snakemake_graph import Jobs, single_jobs
from intarsia.engines.snakemake_hints import CHOICES, HELP, Hints, told_by
from intarsia.locate import host_of, locate
from intarsia.run.hints import Cluster
from intarsia.schedule import (
    PATIENCE_S,
    Policy,
    Start,
    Task,
    TaskQueue,
    blind,
    delayed,
    least_cost,
)
from intarsia.units import payload_rate

_LOGS = Path(".snakemake/intarsia")
_POLL_S = 0.2
# How long a host may take to answer before it counts as lost.
_ANSWER_S = 15
POLICIES = ("local", "delayed", "blind")


# Snakemake reads the types of the fields, so that annotations of this file are no strings.
@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of the command line, each with `--intarsia-` before it."""

    hosts: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Hosts that run jobs, with commas between; as the store names them and "
            "--intarsia-shell reaches them. Example: node01,node02",
            "required": True,
        },
    )
    cores: int = field(
        default=1, metadata={"help": "Cores for jobs on each host; a job takes its threads."}
    )
    shell: str = field(
        default=SSH,
        metadata={"help": "Command that runs its last word in a shell of {host}. Default: " + SSH},
    )
    policy: str = field(
        default="local",
        metadata={
            "help": "local: where a job is done soonest, waiting for the host of its input against "
            "moving it, and where what is read together with its output is made; delayed: to the "
            "host that holds most of the input, within the patience; blind: to the host with most "
            "free cores.",
            "choices": POLICIES,
        },
    )
    link: str = field(
        default="1gbit",
        metadata={
            "help": "Rate of the hosts' links, by which waiting is weighed. Example: 200mbit"
        },
    )
    patience: Optional[float] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Seconds that a job waits for the host that holds most of its input, before "
            f"it runs elsewhere; with it the policy is delayed. Default: {PATIENCE_S:g}, where "
            "that is the policy."
        },
    )
    hints: str = field(default=CHOICES[0], metadata={"help": HELP, "choices": CHOICES})


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    # The hosts share this installation, and need no network to fetch plug-ins of storage with.
    auto_deploy_default_storage_provider=False,
    pass_group_args=True,
)


class Executor(RemoteExecutor):
    """Begins jobs on hosts as cores come free, and looks after them."""

    def __post_init__(self) -> None:
        settings: ExecutorSettings = self.executor_settings
        self._settings = settings
        self._directory = Path.cwd()
        if host_of(self._directory) is None:
            raise WorkflowError(
                f"{self._directory} is in no store, so its files have no hosts: give --directory "
                "a directory below a store's mount"
            )
        self._lock = threading.Lock()
        self._jobs: dict[Any, Any] = {}
        self._processes: dict[Any, subprocess.Popen[bytes]] = {}
        self._begun = Begun()
        self._hosts: dict[Any, str] = {}
        self._gone: set[str] = set()
        policy = _policy(settings)
        by_affinity = policy is least_cost
        self._placing = Jobs(self.dag, by_affinity=by_affinity)
        try:
            program = on_host(settings.shell, "host", "true", self._directory)[0]
            hosts, link = host_names(settings.hosts or ""), payload_rate(settings.link)
            self._queue: TaskQueue[Any] = TaskQueue(
                dict.fromkeys(hosts, settings.cores),
                policy,
                link_bytes_per_s=link,
                in_order=settings.policy == "blind",
            )
        except ValueError as error:
            raise WorkflowError(str(error)) from error
        if shutil.which(program) is None:
            raise WorkflowError(f"--intarsia-shell: the program {program} is not in the PATH")
        cluster = Cluster.linked(len(hosts), link, by_affinity=by_affinity)
        self._hints = Hints(self.dag, settings.hints, cluster, told_by(self.logger))

    @property
    def next_seconds_between_status_checks(self) -> float:
        """How soon jobs are looked after again: they are processes of this host, so it is cheap."""
        return _POLL_S

    def run_job(self, job: Any) -> None:
        """Take a job that is ready; it begins when the policy has a host for it."""
        found = locate(job.input)
        with self._lock:
            self._hints.begin(single_jobs(job), found)
            self._jobs[job.jobid] = job
            self._queue.add(job.jobid, self._placing.add(job, found), time.monotonic())
        self.report_job_submission(SubmittedJobInfo(job))
        self._start()

    def _start(self) -> None:
        with self._lock:
            # One by one, as where a job runs counts for where others had best run.
            while starts := self._queue.start(time.monotonic(), at_most=1):
                (start,) = starts
                self._begin(start)
                self._tell_queue(self._placing.began(self._jobs[start.key], start.host))

    def _tell_queue(self, news: Mapping[Any, Task]) -> None:
        for jobid, task in news.items():
            self._queue.update(jobid, task)

    def _begin(self, start: Start[Any]) -> None:
        job = self._jobs[start.key]
        command = self.format_job_exec(job)
        words = on_host(self._settings.shell, start.host, command, self._directory)
        with self._log_of(job).open("wb") as log:
            self._processes[start.key] = self._begun.begin(words, log)
        self._hosts[start.key] = start.host
        held, size = start.task.local_bytes(start.host), start.task.input_bytes
        self.logger.info(
            f"Job {start.key} ({job.name}) runs on {start.host}: "
            f"{held} of {size} input bytes are local."
        )

    def _log_of(self, job: Any) -> Path:
        log = self._directory / _LOGS / f"{job.name}-{job.jobid}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        return log

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report jobs that have ended and yield the others; begin those that wait."""
        for info in active_jobs:
            code = self._exit_code(info.job.jobid)
            if code is None:
                yield info
                continue
            host = self._hosts[info.job.jobid]
            if code != 0 and not await asyncio.to_thread(self._is_usable, host):
                self._give_up(host)
                if self._begin_elsewhere(info.job.jobid):
                    yield info
                    continue
            self._finish(info.job.jobid, code)
            if code == 0:
                self.report_job_success(info)
            else:
                log = self._log_of(info.job)
                said = f"{info.job.name} ended with {code} on {host}. "
                self.report_job_error(info, msg=said, aux_logs=[str(log)])
        # Jobs that wait for a host are among the active ones.
        if active_jobs:
            self._start()

    def _exit_code(self, jobid: Any) -> int | None:
        """Return the exit code of a job that has ended."""
        with self._lock:
            process = self._processes.get(jobid)
            return None if process is None else process.poll()

    def _finish(self, jobid: Any, code: int) -> None:
        """Give back the cores of a job that has ended."""
        with self._lock:
            self._begun.ended(self._processes.pop(jobid))
            self._queue.finish(jobid, time.monotonic())
            job = self._jobs.pop(jobid)
            if code == 0:
                for one in single_jobs(job):
                    self._hints.done(one)
                self._tell_queue(self._placing.done(job, self._hosts[jobid]))

    def _is_usable(self, host: str) -> bool:
        """Whether a host answers and sees the working directory; all jobs there would fail else."""
        words = on_host(self._settings.shell, host, "true", self._directory)
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_S, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def _give_up(self, host: str) -> None:
        """Begin nothing more on a host."""
        with self._lock:
            if host not in self._gone:
                self._gone.add(host)
                self._queue.remove_host(host)
                self._placing.lost(host)
                self.logger.warning(
                    f"{host} does not answer or does not see {self._directory}; nothing more "
                    "begins there, and its jobs begin elsewhere"
                )

    def _begin_elsewhere(self, jobid: Any) -> bool:
        """Have a job of a lost host wait for another one; says whether there is any."""
        job = self._jobs[jobid]
        found = locate(job.input)
        now_s = time.monotonic()
        with self._lock:
            if not self._queue.hosts(now_s):
                return False
            self._begun.ended(self._processes.pop(jobid))
            self._queue.finish(jobid, now_s)
            self._queue.add(jobid, self._placing.add(job, found), now_s)
        return True

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """End what runs, and forget what waits."""
        with self._lock:
            for info in active_jobs:
                self._queue.discard(info.job.jobid)
            for process in self._processes.values():
                self._begun.end(process)

    def shutdown(self) -> None:
        """Look after jobs no longer."""
        super().shutdown()
        self._hints.close()
        self._begun.close()


def _policy(settings: ExecutorSettings) -> Policy:
    if settings.policy == "blind":
        return blind
    if settings.policy == "local" and settings.patience is None:
        return least_cost
    patience_s = PATIENCE_S if settings.patience is None else settings.patience
    return partial(delayed, patience_s=patience_s)
