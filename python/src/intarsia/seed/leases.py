"""What calls cost in a directory that another host has just changed, against one that is calm.

A store that lets a host keep what it knows of a directory (by leases, or for a while) has to take
that back when another host changes it: whoever comes next asks again.
"""

from __future__ import annotations

import os

from intarsia.seed.probe import BODY, KIB, write_all
from intarsia.seed.watch import Times, Watch

_KINDS = ("changed", "calm")
_CALLS = ("stat", "open", "create")
#: Directories of each kind for each call in a round: only the first call in one tells anything.
_EACH = 3


def prepare(directory: str) -> None:
    """Make directories of both kinds, and do in each what `look` does: this host knows them."""
    for path in _paths(directory):
        os.mkdir(path)
        for name in ("seen", "before"):
            _make(os.path.join(path, name))
    for path in _paths(directory):
        os.listdir(path)
        os.stat(os.path.join(path, "seen"))
        os.close(os.open(os.path.join(path, "seen"), os.O_RDONLY))


def change(directory: str) -> Times:
    """Make names on the other host: where this host knows the directory, and once more there."""
    watch = Watch()
    for path in _paths(directory, _KINDS[:1]):
        os.stat(path)
        for name in ("taken", "held"):
            watch.start()
            file = os.open(os.path.join(path, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            watch.stop(f"{name}_create")
            os.close(file)
    return watch.times()


def look(directory: str) -> Times:
    """Look at, open, or make a name in each directory, changed ones and calm ones in turn."""
    watch = Watch()
    for number, path in enumerate(_paths(directory)):
        kind = os.path.basename(path).partition("-")[0]
        call = _CALLS[number // len(_KINDS) // _EACH]
        watch.start()
        file = _call(path, call)
        watch.stop(f"{kind}_{call}")
        if file is not None:
            os.close(file)
    return watch.times()


def _call(path: str, call: str) -> int | None:
    """Make one call in a directory; returns the descriptor that is open after it."""
    if call == "stat":
        os.stat(os.path.join(path, "seen"))
        return None
    if call == "open":
        return os.open(os.path.join(path, "seen"), os.O_RDONLY)
    return os.open(os.path.join(path, "made"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def _paths(directory: str, kinds: tuple[str, ...] = _KINDS) -> list[str]:
    """Directories by turns: in every second pair the calm one comes first."""
    paths = []
    for number in range(len(_CALLS) * _EACH):
        turned = kinds if number % 2 else kinds[::-1]
        paths += [os.path.join(directory, f"{kind}-{number}") for kind in turned]
    return paths


def _make(path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    write_all(file, BODY[: 4 * KIB])
    os.close(file)
