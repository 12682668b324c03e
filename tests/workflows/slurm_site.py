"""A Slurm of a test's own: its nodes `n1` to `n4` are this machine, or the hosts of a lab."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil
from conftest import require
from lab_hosts import ROOT

NODES = ("n1", "n2", "n3", "n4")
LIMIT_S = 90.0
# What looks after a job takes a moment to tell of its end, and longer on a busy machine.
_STEPS_S = 30.0
# Of the nodes in a lab, where all of them are free.
_CONTROLLER_PORT, _NODE_PORT = 6817, 6818
_CONFIGURATION = ROOT / "tests/slurm.conf"
# Jobs share a node that has several processors, whether this machine has so many or not.
_SHARED = """SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName=DEFAULT RealMemory=4000
"""


class Nodes(Protocol):
    """Where the nodes are: hosts of a lab, with or without a store."""

    def words(self, host: str, *words: str) -> list[str]:
        """Return the words of a command that runs another on a host."""


@dataclass(frozen=True)
class Slurm:
    """Commands that speak to it."""

    directory: Path
    hosts: Nodes | None = None

    def words(self, node: str, *words: str) -> list[str]:
        """Return the words that run a command where a node is."""
        return list(words) if self.hosts is None else self.hosts.words(node, *words)

    def run(self, *words: str) -> str:
        """Run a command to its end; return what it printed."""
        hidden = {name: value for name, value in os.environ.items() if "SLURM" not in name}
        done = subprocess.run(
            self.words("n1", *words),
            cwd=self.directory,
            env=hidden | {"SLURM_CONF": str(self.directory / "slurm.conf")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def node_of(self, *options: str) -> str:
        """Run a job with these options of `sbatch`; return the node that it ran on."""
        told = self.directory / "node"
        told.unlink(missing_ok=True)
        wrapped = f"--wrap=echo $SLURMD_NODENAME > {told}"
        self.run("sbatch", "--wait", "--quiet", "--output=/dev/null", *options, wrapped)
        return told.read_text().strip()

    def jobs(self, name: str = "") -> list[str]:
        """The jobs that wait or run, or that nodes clean up; those whose names begin so."""
        listed = self.run("squeue", "-h", "-o", "%i %j").splitlines()
        found = dict(line.split(maxsplit=1) for line in listed)
        return [job for job, called in found.items() if called.startswith(name)]

    def cancel(self, job: str) -> None:
        """End a job, and wait until nothing of it runs."""
        deadline = time.monotonic() + LIMIT_S
        said = ""
        while job in self.jobs():
            assert time.monotonic() < deadline, f"job {job} does not end: {said}"
            try:
                self.run("scancel", "--signal=KILL", "--full", job)
            except AssertionError as error:  # it may just have ended
                said = str(error)
            time.sleep(0.1)

    def steps(self) -> list[psutil.Process]:
        """The processes that look after jobs of this Slurm, also when its servers are gone."""
        return [process for process in psutil.process_iter() if self._is_step(process)]

    def _is_step(self, process: psutil.Process) -> bool:
        """Whether a process is such a one: it listens in the spool directory of its node."""
        try:
            if not process.name().startswith("slurmstepd"):
                return False
            sockets = process.net_connections("unix")
        except (psutil.Error, OSError):
            return False
        return any(str(one.laddr).startswith(f"{self.directory}/") for one in sockets)


@contextmanager
def slurm_site(directory: Path, hosts: Nodes | None = None, *, cpus: int = 1) -> Iterator[Slurm]:
    """Keep a Slurm up meanwhile, or skip the test where there can be none.

    With hosts each node is one of them, and its jobs see what commands see there. So many jobs
    share a node as it has `cpus`.
    """
    for program in ("slurmctld", "slurmd", "sbatch", "setpriv"):
        path = f"{os.environ.get('PATH', '')}:/usr/sbin"
        require(shutil.which(program, path=path) is not None, f"{program} is missing (slurm-wlm)")
    require(os.geteuid() == 0, "root is needed to run a server of jobs")
    file = _configure(directory, hosts, cpus)
    slurm = Slurm(directory, hosts)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        words = slurm.words("n1", "/usr/sbin/slurmctld", "-D", "-f", str(file))
        daemons.append(_start(directory, "slurmctld", *words))
        for node in NODES:
            words = slurm.words(node, "/usr/sbin/slurmd", "-D", "-N", node, "-f", str(file))
            daemons.append(_start(directory, node, *words))
        _wait_for_idle(slurm)
        try:
            yield slurm
        finally:
            _end_jobs(slurm)
    finally:
        _end_steps(slurm)
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _end_jobs(slurm: Slurm) -> None:
    """End what a test that failed has left: it would run on without the servers."""
    with contextlib.suppress(AssertionError, subprocess.SubprocessError):
        for job in slurm.jobs():
            with contextlib.suppress(AssertionError, subprocess.SubprocessError):
                slurm.cancel(job)


def _end_steps(slurm: Slurm) -> None:
    """Wait for what looks after jobs to end, which takes the servers; kill what does not.

    It has the outputs of its job open, and with them the mount of a store.
    """
    _, steps = psutil.wait_procs(slurm.steps(), timeout=_STEPS_S)
    left = []
    for step in steps:
        with contextlib.suppress(psutil.NoSuchProcess):
            left += [step, *step.children(recursive=True)]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=_STEPS_S)


def _configure(directory: Path, hosts: Nodes | None, cpus: int) -> Path:
    host, network = socket.gethostname(), "10.77.0"
    controller, port = f"{network}.1", _CONTROLLER_PORT
    if hosts is None:
        network = f"127.77.{os.getpid() % 250}"
        controller, port = "127.0.0.1", _free_port()
    (directory / "state").mkdir()
    text = _CONFIGURATION.read_text().format(
        host=host, address=controller, port=port, directory=directory
    )
    text += _SHARED if cpus > 1 else ""
    for number, node in enumerate(NODES, 1):
        (directory / f"spool-{node}").mkdir()
        port = _free_port() if hosts is None else _NODE_PORT
        text += f"NodeName={node} NodeHostname={host} NodeAddr={network}.{number} Port={port} "
        # What `--prefer` goes by.
        text += f"CPUs={cpus} Feature={node}\n"
    file = directory / "slurm.conf"
    file.write_text(text)
    return file


def _start(directory: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    """Begin a daemon, which the kernel ends even when the test is killed."""
    with (directory / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words],
            env=os.environ | {"SLURM_CONF": str(directory / "slurm.conf")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _wait_for_idle(slurm: Slurm) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            idle = slurm.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip()
        except AssertionError:  # the controller does not answer yet
            idle = ""
        if idle == str(len(NODES)):
            return
        assert time.monotonic() < deadline, (slurm.directory / "slurmctld.log").read_text()[-2000:]
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
