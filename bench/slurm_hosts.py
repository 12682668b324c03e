"""A Slurm whose nodes are the hosts of a lab: the controller runs on the first one, and a slurmd with one processor on each.

Every node has its own name as a feature, which is what `--prefer` goes by. Jobs see the store where `workflows.Runner` has it.
"""

import contextlib
import os
import shutil
import socket
import subprocess

import labs

CONFIGURATION = labs.ROOT / "tests/slurm.conf"
NEEDS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
CONTROLLER_PORT, NODE_PORT = 6817, 6818


class Slurm:
    """Up within the block; commands find it by `environment`, on each of the hosts."""

    def __init__(self, runner):
        self.runner, self.daemons = runner, []
        self.directory = runner.system.dir / "slurm"
        self.file = self.directory / "slurm.conf"
        self.environment = os.environ | {"SLURM_CONF": str(self.file)}

    def __enter__(self):
        self.configure()
        try:
            self.start("n1", "slurmctld -D")
            for host in self.runner.hosts:
                self.start(host, f"slurmd -D -N {host}")
            self.runner.system.wait("Slurm", lambda: self.ask("sinfo -h -t idle -o %D").strip() == str(len(self.runner.hosts)), 0.2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with labs.undisturbed():
            for job in self.ask("squeue -h -o %i").split():
                self.ask(f"scancel --signal=KILL --full {job}")
            for daemon in self.daemons:
                daemon.terminate()
            for daemon in self.daemons:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    daemon.wait(10)
                daemon.kill()
                daemon.wait()
            shutil.rmtree(self.directory, ignore_errors=True)

    def configure(self):
        """Write what all of it reads, and make the directories that have to be there."""
        name = socket.gethostname()
        for part in ("state", *(f"spool-{host}" for host in self.runner.hosts)):
            (self.directory / part).mkdir(parents=True)
        addresses = self.runner.system.addresses
        text = CONFIGURATION.read_text().format(host=name, address=addresses[1], port=CONTROLLER_PORT, directory=self.directory)
        for host in self.runner.hosts:
            text += f"NodeName={host} NodeHostname={name} NodeAddr={addresses[int(host[1:])]} Port={NODE_PORT} CPUs=1 Feature={host}\n"
        self.file.write_text(text)

    def words(self, host, command):
        """The words that run a command on a host, where the store is mounted as for tasks."""
        return [self.runner.script, host, f"exec {command}"]

    def start(self, host, command):
        """Begin a daemon."""
        with open(self.directory / "daemons.log", "ab") as log:
            words = self.words(host, command)
            self.daemons.append(subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def ask(self, command):
        """What a command of Slurm prints; nothing where it fails, as it does while the controller is not up."""
        done = subprocess.run(self.words("n1", command), env=self.environment, capture_output=True, text=True, timeout=labs.PATIENCE_S)
        return done.stdout
