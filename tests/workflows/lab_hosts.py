"""The hosts of a lab, as a cluster has them: one path of the store on all, reached by a shell."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from conftest import SCRATCH, require
from intarsia.lab_store import LabStore, lab_problem
from intarsia.store import call
from shell import both_outputs

ROOT = Path(__file__).resolve().parents[2]
#: Longer than any example takes on a busy machine.
_LIMIT_S = 150
_QUERY_LIMIT_S = 30

# As sshd does: the words are joined, and a shell of the host reads them. What is mounted at the
# common path is seen by the command alone.
_SHELL = r"""#!/bin/sh
host=$1; shift
exec {binary} lab exec --lab {lab} "$host" -- unshare --mount sh -c '
  mount --bind "$1" "$2"; shift 2; cd /; exec sh -c "$*"' sh {base}-"$host" {mount} "$@"
"""


class Hosts:
    """Runs commands on the hosts of a lab's store, which is at `mount` on each of them."""

    def __init__(self, store: LabStore, directory: Path) -> None:
        self.store = store
        self.mount = directory / "work"
        self.mount.mkdir()
        base = str(store.mounts[0]).removesuffix("-n1")
        script = directory / "on"
        script.write_text(
            _SHELL.format(binary=store.binary, lab=store.lab, base=base, mount=self.mount)
        )
        script.chmod(0o755)
        #: For `--shell` of the adapters.
        self.shell = f"{script} {{host}}"
        self._script = script

    def run(self, host: str, *words: str | Path) -> str:
        """Run a command on a host; return what it prints on both outputs."""
        environment = os.environ | {"PYTHONPATH": str(ROOT / "python/src")}
        return both_outputs(self.words(host, *words), limit_s=_LIMIT_S, env=environment)

    def words(self, host: str, *words: str | Path) -> list[str]:
        """Return the words of a command that runs another on a host."""
        return [str(self._script), host, shlex.join(map(str, words))]

    def python(self, host: str, *words: str | Path) -> str:
        """Run Python on a host; return what it prints."""
        return self.run(host, sys.executable, *words)

    def spread_files(self) -> int:
        """Count how often a host began to take a file from its other readers too."""
        wanted = 'intarsia_patterns_total{pattern="broadcast",met="yes"}'
        counts = []
        for mount in self.store.mounts:
            told = call(self.store.binary, ["status", str(mount), "--metrics"], _QUERY_LIMIT_S)
            counts += [line.split()[1] for line in told.splitlines() if line.startswith(wanted)]
        return sum(map(int, counts))

    def new_directory(self) -> Path:
        """Make a directory of the store; return it by the path of the first host."""
        return Path(tempfile.mkdtemp(dir=self.store.mounts[0]))


def four_hosts(prefix: str) -> AbstractContextManager[Hosts]:
    """Keep a store over four hosts up meanwhile, or skip the test where there can be none."""
    return lab_hosts(prefix, 4)


@contextmanager
def lab_hosts(prefix: str, count: int) -> Iterator[Hosts]:
    """Keep a store over so many hosts up meanwhile, or skip the test where there can be none."""
    problem = lab_problem()
    require(problem is None, str(problem))
    with tempfile.TemporaryDirectory(prefix=prefix, dir=SCRATCH) as place:
        directory = Path(place).resolve()
        store = LabStore.up(directory / "mnt", directory / "store", count)
        try:
            yield Hosts(store, directory)
        finally:
            store.down(purge=True)
        assert store.leftovers() == []
