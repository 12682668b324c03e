"""Commands of Nextflow on a Slurm of a test's own, without any network."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from conftest import require
from lab_hosts import ROOT, Hosts
from runs import ENVIRONMENT
from shell import both_outputs
from slurm_site import Slurm

EXAMPLES = ROOT / "docs/user/engines"
LIMIT_S = 200
PARTS = ("3", "4")
# Above what stands beside its inode, also when packed.
_PART_LINES = 60_000
_LIBRARY = ROOT / "build/nextflow/lib"
# As Nextflow's launcher has it: without them it keeps nothing for `-resume`, and does not say so.
_OPENED = ("java.lang", "java.io", "java.nio", "java.net", "java.util", "sun.nio.ch", "sun.nio.fs")
_JAVA = ["java", *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED)]


def require_nextflow() -> None:
    """Skip the test where Nextflow is missing."""
    is_there = shutil.which("java") is not None and _LIBRARY.exists()
    require(is_there, "Nextflow is missing; scripts/fetch_nextflow.sh fetches it")


def write_parts(hosts: Hosts, job: Path, parts: Sequence[str] = PARTS) -> dict[str, str]:
    """Write parts, each on the host of its first digit; return what is left when cleaned."""
    (job / "parts").mkdir()
    cleaned = {}
    for part in parts:
        cleaned[part] = "\n".join(os.urandom(16).hex() for _ in range(_PART_LINES)) + "\n"
        path = hosts.store.mounts[int(part[0]) - 1] / job.name / f"parts/{part}.txt"
        path.write_text(f"# a part\n{cleaned[part]}")
    return cleaned


class Nextflow:
    """A pipeline whose jobs go to Slurm, and whose files are in a directory of the store."""

    def __init__(self, slurm: Slurm, pipeline: Path, job: Path) -> None:
        self._slurm = slurm
        self._place = slurm.directory / "nextflow"
        self._place.mkdir(exist_ok=True)
        config = self._place / "test.config"
        config.write_text("executor.pollInterval = '1 sec'\nprocess.queue = 'all'\n")
        self._nextflow = [*_JAVA, "-cp", f"{_LIBRARY}/*", "nextflow.cli.Launcher"]
        self._work = f"{job}/work"
        self._words = [
            *self._nextflow,
            "run",
            str(pipeline),
            "-ansi-log",
            "false",
            "-c",
            str(config),
        ]
        self._words += ["-w", self._work, "--parts", f"{job}/parts", "--out", f"{job}/packed"]
        self._words += ["--intarsia_python", sys.executable]
        self._environment = ENVIRONMENT | {"SLURM_CONF": str(slurm.directory / "slurm.conf")}
        self._environment |= {"NXF_OFFLINE": "true", "NXF_HOME": str(self._place / "home")}

    def run(self, *options: str) -> str:
        """Run it to its end; return what it said."""
        return both_outputs(self._command(*options), limit_s=LIMIT_S, env=self._environment)

    def has_kept(self, work: Path) -> bool:
        """Whether `-resume` will know of the task in a work directory, of which this is the end."""
        logs = (self._place / ".nextflow/cache").glob("*/db/*.log")
        # The last letter of a word is marked there.
        word = str(work)[:-1].encode()
        return any(word in log.read_bytes() for log in logs)

    def forget(self, script: str) -> None:
        """Run the users' page's script for what Nextflow has left in its work directory."""
        script = script.replace("/mnt/work/nextflow", self._work)
        script = script.replace("nextflow log", f"{shlex.join(self._nextflow)} log")
        words = self._slurm.words("n1", "env", "-C", str(self._place), "bash", "-ec", script)
        both_outputs(words, limit_s=LIMIT_S, env=self._environment)

    def start(self, said: Path) -> subprocess.Popen[bytes]:
        """Begin with it; what it says goes to a file."""
        with said.open("ab") as file:
            return subprocess.Popen(
                self._command(),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    def _command(self, *options: str) -> list[str]:
        # It runs where the first node is, and keeps its log and its cache in its own directory.
        return self._slurm.words("n1", "env", "-C", str(self._place), *self._words, *options)
