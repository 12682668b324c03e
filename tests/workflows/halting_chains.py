"""One small workflow for every engine, which halts halfway, so that something can be killed then.

A chain for each host, of `first-K` and `second-K`, then `total` of all chains. Every `second` has
read and written one half when it waits at the gate; every `first` has ended by then.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from intarsia.locate import locate
from lab_hosts import Hosts
from pattern_graphs import PART_BYTES
from psutil import NoSuchProcess, Process
from runs import ENVIRONMENT, LIMIT_S, wait_until
from store_processes import check_store, cut_off, has_one, kill, mend, processes

CHAINS = (1, 2, 3)
#: The host of the engine's main process.
FIRST = "n1"

#: For how long a host's links are cut: less than the 9 seconds for which calls wait for them.
CUT_S = 4.0

#: What is said of a file whose bytes only a lost host has; at first, and when it counts as lost.
LOST = "No route to host|Input/output error"

#: `step NAME TARGET SOURCE...`; what it says of itself is kept outside of the store.
_STEP = r"""#!/bin/bash
set -e -o pipefail
name=$1 target=$2 source=$3
shift 3
echo "$INTARSIA_LAB_NODE" >> {gate}/began-$name
halt() {{
  [[ $name == second-* ]] || return 0
  for _ in {{1..{tries}}}; do
    [ ! -e {gate}/go ] || return 0
    sleep 0.05
  done
  return 1
}}
{{ dd bs={half} count=1 iflag=fullblock status=none; halt < /dev/null >&2; cat - "$@"; }} \
  < "$source" | tr a-f b-g > "$target"
echo >> {gate}/ended-$name
"""


class Chains(ABC):
    """The workflow in a new directory of a store, for an engine; with `copies` files have two."""

    #: What processes of the engine have in their command that name neither of our directories.
    WORDS: tuple[str, ...] = ()

    def __init__(self, hosts: Hosts, place: Path, *, copies: bool) -> None:
        self.hosts = hosts
        self.place = place
        self.job = hosts.new_directory()
        #: What the engine says, each time that it is begun.
        self.said = place / "said"
        #: The same directory as all hosts name it.
        self.common = hosts.mount / self.job.name
        self._gate = place / "gate"
        self._gate.mkdir()
        self.step = place / "step"
        words = {"gate": self._gate, "tries": int(LIMIT_S / 0.05), "half": PART_BYTES // 2}
        self.step.write_text(_STEP.format(**words))
        self.step.chmod(0o755)
        self._write_seeds(copies)

    def _write_seeds(self, copies: bool) -> None:
        """Write the sources, of which each host has one, and another a copy of it."""
        hints = {"user.intarsia.replicas": b"2", "user.intarsia.close": b"safe"}
        for name, value in hints.items():
            os.setxattr(self.job, name, value)
        chance = random.Random(18)
        self._seeds = {f"seed-{k}": chance.randbytes(PART_BYTES // 2).hex() for k in CHAINS}
        for mount, (name, text) in zip(self.hosts.store.mounts, self._seeds.items(), strict=True):
            (mount / self.job.name / name).write_text(text)
        for name in () if copies else hints:
            os.removexattr(self.job, name)

    def began(self, name: str) -> list[str]:
        """The hosts on which a step began, one after the other."""
        said = self._gate / f"began-{name}"
        return said.read_text().split() if said.exists() else []

    def ended(self) -> set[str]:
        """The steps that have ended well."""
        return {path.name.removeprefix("ended-") for path in self._gate.glob("ended-*")}

    @abstractmethod
    def command(self) -> list[str]:
        """The words that begin the engine's main process on the first host."""

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Begin the engine."""
        with self.said.open("ab") as said:
            return subprocess.Popen(
                self.hosts.words(FIRST, *self.command(), *options),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT | {"HOME": os.environ.get("HOME", "/")},
            )

    def end(self, goes: subprocess.Popen[bytes]) -> int:
        """Wait for its end; return its code."""
        try:
            return goes.wait(LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"it does not end:\n{self.text()}") from error

    def text(self) -> str:
        """What the engine has said."""
        return self.said.read_text()

    def wait_for_the_gate(self, goes: subprocess.Popen[bytes]) -> None:
        """Wait until every chain is there."""

        def have_come() -> bool:
            assert goes.poll() is None, self.text()
            return all(self.began(f"second-{k}") for k in CHAINS)

        wait_until(have_come)

    def open_the_gate(self) -> None:
        """Let all go on."""
        (self._gate / "go").touch()

    def began_twice(self, among: set[str]) -> list[str]:
        """The steps of these that began more than once."""
        return sorted(name for name in among if len(self.began(name)) > 1)

    def held_elsewhere(self) -> tuple[int, str]:
        """A chain whose halting step reads what another host than the first holds; that host."""
        found = locate([self.job / f"middle-{k}" for k in CHAINS]).files
        assert all(file.hosts for file in found), found
        homes = [(k, file.hosts[0]) for k, file in zip(CHAINS, found, strict=True)]
        return next((k, home) for k, home in homes if home != FIRST)

    def check(self) -> None:
        """The result is right, the store is whole, and nothing runs any more."""
        table = str.maketrans("abcdef", "bcdefg")
        text = "".join(self._seeds.values())
        for _ in range(3):
            text = text.translate(table)
        assert (self.job / "total").read_text() == text
        check_store(self.hosts)
        wait_until(lambda: not self.running())

    def running(self, host: str | None = None, *of: str) -> list[Process]:
        """What runs for this workflow on a host or on any, with one of these words in it."""
        found = processes(self.hosts, host, str(self.place), self.job.name, *self.WORDS)
        return [one for one in found if not of or has_one(one, *of)]

    def kill_node(self, host: str) -> None:
        """Kill the node of a host, which has its mount fail there."""
        kill(processes(self.hosts, host, "intarsia node"))


@contextmanager
def at_the_gate(story: Chains, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have a story come to its gate; then all must be well, and what was done not be done twice."""
    goes = story.start(*options)
    try:
        story.wait_for_the_gate(goes)
        before = story.ended()
        assert before == {f"first-{k}" for k in CHAINS}
        yield goes
        story.check()
        assert story.began_twice(before) == [], story.text()
        mend(story.hosts)
        check_store(story.hosts)
    finally:
        for one in story.running():
            with suppress(NoSuchProcess):
                one.kill()
        goes.kill()
        goes.wait()
        mend(story.hosts)


def kill_a_node_of_what_has_copies(story: Chains, host: str, said: str) -> None:
    """All ends right without that host, of which the engine says so."""
    with at_the_gate(story) as goes:
        story.kill_node(host)
        story.open_the_gate()
        assert story.end(goes) == 0, story.text()
        assert said in story.text()
        mend(story.hosts)


def kill_a_node_of_what_has_no_copies(story: Chains) -> None:
    """What it held is named; once it is back all ends right."""
    with at_the_gate(story) as goes:
        chain, home = story.held_elsewhere()
        story.kill_node(home)
        story.open_the_gate()
        assert story.end(goes) != 0
        assert re.search(f"second-{chain} ended with 1: .*({LOST})", story.text()), story.text()
        mend(story.hosts)
        assert story.end(story.start()) == 0, story.text()


def cut_a_host_off_for_a_while(story: Chains, *options: str) -> None:
    """All ends right; calls wait for the links for longer than that, so few steps fail, if any.

    Those are tried again, as `options` have the engine do.
    """
    with at_the_gate(story, *options) as goes:
        _, victim = story.held_elsewhere()
        cut_off(story.hosts, victim)
        story.open_the_gate()
        time.sleep(CUT_S)
        mend(story.hosts)
        assert story.end(goes) == 0, story.text()


def kill_the_program(story: Chains) -> None:
    """What it has begun on the hosts ends too; begun again, all ends right."""
    with at_the_gate(story) as goes:
        kill(story.running(FIRST, "story.py"))
        story.end(goes)
        story.open_the_gate()
        wait_until(lambda: not story.running(None, *story.WORDS))
        assert story.end(story.start()) == 0, story.text()
