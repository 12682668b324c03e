"""A place of its own for the examples of one page: a shell in namespaces that end with it.

The page's absolute paths are used as they stand: in a mount namespace of the place's own, fresh
directories lie where pages make files (`FRESH`). All processes live in a PID namespace, so that
nodes, servers and labs go with the shell, whatever happens; nothing of them is seen outside. The
machine is called `vm` there.

Hosts: `node01` to `node12` are nodes of a lab, each with a network, a mount namespace and a name of
its own, so that the same path is another directory on each. `ssh` is replaced by entering these
namespaces; everything from there on is what runs on real hosts. (Real `ssh` is tested by
`crates/cli/tests/fleet_ssh.rs`.) The shell is on `node01` then.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Where pages make files; each is a fresh directory on the disk.
FRESH = (
    "/tmp",
    "/mnt",
    "/scratch",
    "/local",
    "/project",
    "/backup",
    "/var/lib/intarsia",
    "/dev/shm",
)
#: Where the program keeps what it knows of running stores and of labs.
STATE = ("/run/intarsia", "/run/netns")
HOSTS = 12
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Longer than any example takes on a busy machine.
LIMIT_S = 150.0

# Has a directory of the place lie over one of the machine. A clone of the project below that stays.
_COVER = r"""
cover() {
  mkdir -p "$1$2"
  case "$ROOT/" in "$2"/*) mkdir -p "$1$ROOT"; mount --bind "$ROOT" "$1$ROOT" ;; esac
  mount --rbind "$1$2" "$2"
}
"""

_START = r"""
set -e
. "$PLACE/cover.sh"
mkdir -p $FRESH $STATE
for dir in $FRESH; do cover "$PLACE/root" "$dir"; chmod 1777 "$dir"; done
for dir in $STATE; do mount -t tmpfs -o mode=755 none "$dir"; done
hostname vm
ip link set lo up
[ "$HOSTS" = 0 ] || . "$PLACE/hosts.sh"
exec $ENTER bash --noprofile --norc "$PLACE/loop.sh"
"""

# The fresh directories of a host hide those of the machine; all share /tmp.
_HOSTS = r"""
for n in $(seq -w 1 "$HOSTS"); do echo "10.77.0.$((10#$n)) node$n"; done >"$PLACE/hosts"
mount --bind "$PLACE/hosts" /etc/hosts
intarsia lab up hosts --nodes "$HOSTS" >/dev/null
mkdir "$PLACE/ns"
for n in $(seq -w 1 "$HOSTS"); do
  NAME=node$n intarsia lab exec --lab hosts n$((10#$n)) -- \
    unshare --mount --uts sh "$PLACE/host.sh" </dev/null >/dev/null 2>&1 &
done
for n in $(seq -w 1 "$HOSTS"); do while [ ! -e "$PLACE/ns/node$n" ]; do sleep 0.02; done; done
export INTARSIA_SSH="$PLACE/bin/ssh"
ENTER="nsenter --target $(cat "$PLACE/ns/node01") --mount --uts --net --"
"""

_HOST = r"""
set -e
. "$PLACE/cover.sh"
hostname "$NAME"
for dir in /mnt /scratch /local /var/lib/intarsia /run/intarsia; do
  cover "$PLACE/root-of/$NAME" "$dir"
done
echo $$ >"$PLACE/ns/$NAME.new"
mv "$PLACE/ns/$NAME.new" "$PLACE/ns/$NAME"
exec sleep infinity
"""

# As sshd does: the words are joined, and a shell of the host reads them.
_SSH = r"""#!/bin/bash
while [ "${1:0:1}" = - ]; do
  case $1 in
    --) shift; break ;;
    -o | -p | -i | -l | -F) shift 2 ;;
    *) shift ;;
  esac
done
host=$1; shift
[ "$1" != -- ] || shift
exec nsenter --target "$(cat "$PLACE/ns/$host")" --mount --uts --net --wd=/ -- sh -c "$*"
"""

# Each step runs in this shell, so that `cd` and variables stay; `$?` is that of the step before.
_LOOP = r"""
cd "$HOME"
exec 3<>"$PLACE/go" 4<>"$PLACE/done"
status=0
while IFS= read -r step <&3; do
  (exit "$status")
  . "$step" >"$step.out" 2>&1 </dev/null 3<&- 4>&-
  status=$?
  echo "$status" >&4
done
"""


class PlaceError(AssertionError):
    """The shell is gone, or a step takes for ever."""


class Place:
    """A shell that runs the examples of a page, one after the other."""

    def __init__(self, directory: Path, binary: Path, python: str, *, has_hosts: bool) -> None:
        """Make the place in `directory`, which is empty."""
        self._directory = directory
        self._steps = 0
        for name in ("bin", "home", "steps"):
            (directory / name).mkdir()
        scripts = {"cover": _COVER, "host": _HOST, "hosts": _HOSTS, "loop": _LOOP}
        for name, text in scripts.items():
            (directory / f"{name}.sh").write_text(text)
        (directory / "bin" / "intarsia").symlink_to(binary)
        # A link would hide from Python which environment it is of.
        for name, text in (("python", f'#!/bin/sh\nexec {python} "$@"\n'), ("ssh", _SSH)):
            (directory / "bin" / name).write_text(text)
            (directory / "bin" / name).chmod(0o755)
        pipes = [directory / "go", directory / "done"]
        for pipe in pipes:
            os.mkfifo(pipe)
        # For both directions, so that opening waits for nobody.
        self._go, self._done = (os.open(pipe, os.O_RDWR) for pipe in pipes)
        namespaces = (
            "--mount",
            "--uts",
            "--pid",
            "--net",
            "--fork",
            "--kill-child",
            "--mount-proc",
        )
        with (directory / "shell.log").open("w") as log:
            self._shell = subprocess.Popen(
                [
                    "unshare",
                    *namespaces,
                    "--fork",
                    "--kill-child",
                    "bash",
                    "--noprofile",
                    "--norc",
                    "-c",
                    _START,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(HOSTS if has_hosts else 0),
            )

    def _environment(self, hosts: int) -> dict[str, str]:
        keep = {name: os.environ[name] for name in ("LANG", "PYTHONPATH") if name in os.environ}
        return {
            **keep,
            "PATH": f"{self._directory}/bin:{_SYSTEM_PATH}",
            "HOME": f"{self._directory}/home",
            "USER": "me",
            "LC_ALL": "C.UTF-8",
            "PLACE": str(self._directory),
            "ROOT": str(ROOT),
            "FRESH": " ".join(FRESH),
            "STATE": " ".join(STATE),
            "HOSTS": str(hosts),
            "ENTER": "",
            # Other tests and builds may run on the machine.
            "INTARSIA_WAIT": "90s",
            "INTARSIA_PYTHON": f"{self._directory}/bin/python",
        }

    def run(self, text: str) -> tuple[int, str]:
        """Run a step in the shell; return its exit status and what it printed on both outputs."""
        self._steps += 1
        step = self._directory / "steps" / f"{self._steps:03}"
        step.write_text(text)
        os.write(self._go, f"{step}\n".encode())
        deadline = time.monotonic() + LIMIT_S
        while not select.select([self._done], [], [], 0.2)[0]:
            printed = (self._directory / "shell.log").read_text()
            if self._shell.poll() is not None:
                raise PlaceError(f"the shell ended with {self._shell.returncode}:\n{printed}")
            if time.monotonic() > deadline:
                out = step.with_suffix(".out")
                said = out.read_text(errors="replace") if out.exists() else printed
                raise PlaceError(f"not done after {LIMIT_S} s:\n{text}\n{said}")
        status = int(os.read(self._done, 64))
        return status, step.with_name(f"{step.name}.out").read_text(errors="replace")

    def close(self) -> None:
        """End the shell, and with it every process and mount of the place."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._go)
        os.close(self._done)
