"""A store for one run: brought up before it, filled, emptied, and taken down after it.

All of it is done by the `intarsia` command, as a user would do it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intarsia.locate import host_of
from intarsia.store import StoreError, find_binary

_USAGE, _BUSY = 2, 4
# Programs of the run may take so long to let go of the mount.
_BUSY_S = 30.0
# Names of files that one command is given.
_BATCH = 256
_MEGA = 1e6

Say = Callable[[str], None]


@dataclass(frozen=True)
class Glide:
    """The store that is brought up; `options` are more words for `intarsia up`."""

    mount: Path
    hosts: tuple[str, ...]
    options: tuple[str, ...]
    discards: bool


@dataclass
class RunStore:
    """A store that is up for a run.

    `addresses` are those of its hosts by their names; there are none where it has one host.
    `is_spent`: all that it was for lies elsewhere now, so that its data can go with it.
    """

    glide: Glide
    is_ours: bool
    addresses: dict[str, str] = field(default_factory=dict)
    is_spent: bool = False

    @property
    def address(self) -> str | None:
        """The address of this host, by which the others reach it."""
        return self.addresses.get(host_of(self.glide.mount) or "")


@contextlib.contextmanager
def store_for_run(glide: Glide, say: Say, warn: Say) -> Iterator[RunStore]:
    """Keep a store up inside the block, whatever ends that; raises StoreError, OSError.

    The caller lets signals raise in the block; while the store goes down they are only told. A
    store that was up before is used, and stays.
    """
    store = RunStore(glide, is_ours=not _is_up(glide.mount))
    if not store.is_ours:
        say(f"the store at {glide.mount} is up already; it is used, and stays up")
        yield store
        return
    try:
        store.addresses = _up(glide)
        hosts = f"{len(store.addresses)} hosts" if len(store.addresses) > 1 else "one host"
        say(f"a store is up at {glide.mount} on {hosts}")
        yield store
    finally:
        with _signals(lambda one: say(f"{one.name}: the store is going down; one moment")):
            _down(glide, purges=store.is_spent or glide.discards, say=say, warn=warn)


def stage_in(sources: Sequence[str], directory: Path, say: Say) -> None:
    """Copy files and directories into the directory of a run; raises StoreError, OSError.

    Of a source that ends in `/.` the content is copied, which a `Path` would forget.
    """
    words = ["stage", "in", *sources, str(directory)]
    say(_told("in", directory, [_json(words)]))


def stage_out(files: Iterable[str], directory: Path, to: Path, say: Say) -> None:
    """Copy `files`, which are relative to `directory`, to below `to`; raises StoreError, OSError.

    All that can be copied is, before it raises.
    """
    answers, problems = [], []
    for parent, names in _by_parent(files).items():
        for begin in range(0, len(names), _BATCH):
            paths = [str(directory / parent / name) for name in names[begin : begin + _BATCH]]
            try:
                answers.append(_json(["stage", "out", *paths, str(to / parent)]))
            except StoreError as error:
                problems.append(str(error))
    say(_told("out", to, answers) if answers else "nothing was copied out")
    if problems:
        raise StoreError("\n".join(problems))


def _told(direction: str, to: Path, answers: Iterable[Any]) -> str:
    files = copied = size = 0
    for one in answers:
        files += one["files"]
        copied += one["copied"]
        size += one["copied_bytes"]
    there = f", {files - copied} were there already" if files > copied else ""
    return f"copied {direction} to {to}: {copied} files, {size / _MEGA:.1f} MB, verified{there}"


def _by_parent(files: Iterable[str]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for file in files:
        parent, name = os.path.split(file)
        found[parent].append(name)
    return found


def _is_up(mount: Path) -> bool:
    try:
        return mount.exists() and host_of(mount) is not None
    except OSError:
        return False  # a mount whose node is dead: `up` takes it away


def _up(glide: Glide) -> dict[str, str]:
    hosts = ["--hosts", ",".join(glide.hosts)] if glide.hosts else []
    words = ["up", str(glide.mount), *hosts, *glide.options]
    ended = (_USAGE, "", "")
    if glide.discards and _is_job():
        # Nobody but the store is left to delete the data of a job that is cancelled.
        ended = _run([*words, "--discard", "--json"])
    if ended[0] == _USAGE:  # the store does not end with a job
        ended = _run([*words, "--json"])
    told = _answer(words, *ended)
    if isinstance(told, dict):
        return {}
    return {str(one["host"]): str(one["address"]) for one in told}


def _is_job() -> bool:
    return any(name in os.environ for name in ("SLURM_JOB_ID", "PBS_NODEFILE"))


def _down(glide: Glide, *, purges: bool, say: Say, warn: Say) -> None:
    words = ["down", str(glide.mount), *_reaching(glide), *(["--purge"] if purges else [])]
    deadline = time.monotonic() + _BUSY_S
    while True:
        code, _, told = _run(words)
        if code != _BUSY or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    if code:
        shown = " ".join(["intarsia", *words])
        warn(f"the store at {glide.mount} is still up; `{shown}` ended with {code}:\n{told}")
        return
    left = "its data is deleted" if purges else "its data stays; the same command goes on with it"
    say(f"the store at {glide.mount} is down; {left}")


def _reaching(glide: Glide) -> list[str]:
    """The options of `up` that `down` needs as well."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--hostfile", "--lab", "--ssh"):
        parser.add_argument(name)
    parser.add_argument("--this-host", action="store_true")
    given = parser.parse_known_args(glide.options)[0]
    found = ["--hosts", ",".join(glide.hosts)] if glide.hosts else []
    for name in ("hostfile", "lab", "ssh"):
        if getattr(given, name) is not None:
            found += [f"--{name}", getattr(given, name)]
    return [*found, "--this-host"] if given.this_host else found


def _json(words: Sequence[str]) -> Any:
    return _answer(words, *_run([*words, "--json"]))


def _answer(words: Sequence[str], code: int, out: str, told: str) -> Any:
    if code:
        reason = told.strip().removeprefix("error: ")
        raise StoreError(f"`intarsia {' '.join(words[:2])}` ended with {code}: {reason}")
    try:
        return json.loads(out)
    except ValueError as error:
        raise StoreError(f"`intarsia {words[0]}` did not print JSON: {error}") from None


def _run(words: Sequence[str]) -> tuple[int, str, str]:
    """Run `intarsia` to its end; returns its exit code and what it printed.

    When a signal raises here the command is ended first. An `up` is waited for, as it may have
    begun what nobody can take down yet; a second signal ends that too. The command has a session
    of its own: Ctrl-C reaches it by this process alone.
    """
    process = subprocess.Popen(
        [str(find_binary()), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, told = process.communicate()
    except BaseException:
        with _signals(lambda _: process.send_signal(signal.SIGINT)):
            if words[0] != "up":
                process.send_signal(signal.SIGINT)
            process.communicate()
        raise
    return process.returncode, out, told


@contextlib.contextmanager
def _signals(handler: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Have `handler` take the signals that end a run, which do nothing else meanwhile."""
    handlers = {
        one: signal.signal(one, lambda number, _: handler(signal.Signals(number)))
        for one in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, before in handlers.items():
            signal.signal(number, before)
