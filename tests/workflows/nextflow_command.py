"""Commands of Nextflow on a Slurm of a test's own, without any network."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from conftest import require
from lab_hosts import ROOT
from runs import ENVIRONMENT
from shell import both_outputs
from slurm_site import Slurm

EXAMPLES = ROOT / "docs/user/engines"
LIMIT_S = 200
_LIBRARY = ROOT / "build/nextflow/lib"


def require_nextflow() -> None:
    """Skip the test where Nextflow is missing."""
    is_there = shutil.which("java") is not None and _LIBRARY.exists()
    require(is_there, "Nextflow is missing; scripts/fetch_nextflow.sh fetches it")


class Nextflow:
    """A pipeline whose jobs go to Slurm, and whose files are in a directory of the store."""

    def __init__(self, slurm: Slurm, pipeline: Path, job: Path) -> None:
        self._place = slurm.directory / "nextflow"
        self._place.mkdir(exist_ok=True)
        config = self._place / "test.config"
        config.write_text("executor.pollInterval = '1 sec'\nprocess.queue = 'all'\n")
        self._words = ["java", "-cp", f"{_LIBRARY}/*", "nextflow.cli.Launcher"]
        self._words += ["run", str(pipeline), "-ansi-log", "false", "-c", str(config)]
        self._words += ["-w", f"{job}/work", "--parts", f"{job}/parts", "--out", f"{job}/packed"]
        self._environment = ENVIRONMENT | {"SLURM_CONF": str(slurm.directory / "slurm.conf")}
        self._environment |= {"NXF_OFFLINE": "true", "NXF_HOME": str(self._place / "home")}

    def run(self, *options: str) -> str:
        """Run it to its end; return what it said."""
        words = [*self._words, *options]
        return both_outputs(words, limit_s=LIMIT_S, env=self._environment, cwd=self._place)

    def start(self, said: Path, *options: str) -> subprocess.Popen[bytes]:
        """Begin with it; what it says goes to a file."""
        with said.open("ab") as file:
            return subprocess.Popen(
                [*self._words, *options],
                cwd=self._place,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
