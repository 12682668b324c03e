"""How commands are run on another host: by `ssh`, or whatever stands for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

# `-tt` ends the command when the connection does, which a host that is lost ends too.
_SSH_OPTIONS = "-tt -o BatchMode=yes -o ServerAliveInterval=10"
#: How a host is reached by `ssh`.
SSH = f"ssh {_SSH_OPTIONS} {{host}}"

# One task, which has all processors of the job on its node.
_SRUN = "srun --overlap --nodes=1 --ntasks=1 --cpu-bind=none --nodelist={host} sh -c"


def shell_of(environment: Mapping[str, str]) -> str:
    """Return how hosts are reached, as `intarsia up` reaches them.

    >>> shell_of({"INTARSIA_SSH": "ssh -p 2222"})
    'ssh -p 2222 -tt -o BatchMode=yes -o ServerAliveInterval=10 {host}'
    """
    if ssh := environment.get("INTARSIA_SSH"):
        return f"{ssh} {_SSH_OPTIONS} {{host}}"
    return _SRUN if environment.get("SLURM_JOB_ID") else SSH


def shell_in(text: str) -> str:
    """Return a command that reaches a host, as a user gives it; raises ValueError for others.

    >>> shell_in("ssh -p 2222 {host}")
    'ssh -p 2222 {host}'
    """
    if "{host}" not in text:
        raise ValueError(f"{text!r} has no {{host}} for the host's name, as in {SSH!r}")
    try:
        shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no command: {error}") from None
    return text


def on_host(shell: str, host: str, command: str, directory: Path) -> list[str]:
    """Return the words that run `command` on `host`, in `directory`.

    `shell` is a command with `{host}` for the host's name. It gets one more word, which a shell
    of the host is to read, as `ssh` does. Raises ValueError if `{host}` is missing.

    >>> on_host("ssh {host}", "n2", "make a.fits", Path("/mnt/work"))
    ['ssh', 'n2', 'cd /mnt/work && make a.fits']
    """
    words = [word.replace("{host}", host) for word in shlex.split(shell_in(shell))]
    return [*words, f"cd {shlex.quote(str(directory))} && {command}"]


def host_names(text: str) -> list[str]:
    """Return the names in a list with commas between.

    >>> host_names("n1, n2,")
    ['n1', 'n2']
    """
    return [name.strip() for name in text.split(",") if name.strip()]
