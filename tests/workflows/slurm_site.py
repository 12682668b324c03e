"""A Slurm of a test's own: a controller and virtual nodes `n1` to `n4` on this machine."""

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

from conftest import require

NODES = ("n1", "n2", "n3", "n4")
LIMIT_S = 90.0
# Each node has its own name as a feature, which is what `--prefer` goes by.
_CONFIGURATION = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/ctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
"""


@dataclass(frozen=True)
class Slurm:
    """Commands that speak to it."""

    directory: Path

    def run(self, *words: str) -> str:
        """Run a command to its end; return what it printed."""
        hidden = {name: value for name, value in os.environ.items() if "SLURM" not in name}
        done = subprocess.run(
            words,
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

    def jobs(self) -> list[str]:
        """The jobs that wait or run."""
        return self.run("squeue", "-h", "-o", "%i").split()

    def cancel(self, job: str) -> None:
        """End a job, and wait until nothing of it runs."""
        self.run("scancel", "--signal=KILL", "--full", job)
        deadline = time.monotonic() + LIMIT_S
        while self.run("squeue", "-h", "-j", job, "-o", "%T").strip():
            assert time.monotonic() < deadline, f"job {job} does not end"
            time.sleep(0.1)


@contextmanager
def slurm_site(directory: Path) -> Iterator[Slurm]:
    """Keep a Slurm up meanwhile, or skip the test where there can be none."""
    for program in ("slurmctld", "slurmd", "sbatch", "setpriv"):
        path = f"{os.environ.get('PATH', '')}:/usr/sbin"
        require(shutil.which(program, path=path) is not None, f"{program} is missing (slurm-wlm)")
    require(os.geteuid() == 0, "root is needed to run a server of jobs")
    file = _configure(directory)
    slurm = Slurm(directory)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        daemons.append(_start(directory, "slurmctld", "/usr/sbin/slurmctld", "-D", "-f", str(file)))
        for node in NODES:
            words = ("/usr/sbin/slurmd", "-D", "-N", node, "-f", str(file))
            daemons.append(_start(directory, node, *words))
        _wait_for_idle(slurm)
        try:
            yield slurm
        finally:
            _end_jobs(slurm)
    finally:
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
            slurm.cancel(job)


def _configure(directory: Path) -> Path:
    host = socket.gethostname()
    (directory / "state").mkdir()
    text = _CONFIGURATION.format(host=host, port=_free_port(), directory=directory)
    for number, node in enumerate(NODES, 1):
        (directory / f"spool-{node}").mkdir()
        address = f"127.77.{os.getpid() % 250}.{number}"
        text += f"NodeName={node} NodeHostname={host} NodeAddr={address} Port={_free_port()} "
        text += f"CPUs=1 Feature={node}\n"
    file = directory / "slurm.conf"
    file.write_text(f"{text}PartitionName=all Nodes=ALL Default=YES State=UP\n")
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
