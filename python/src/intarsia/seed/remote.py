"""Probes on another host, or in the same store through another mount point."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from intarsia.seed import compute, leases, links, probe, together, watch
from intarsia.seed.errors import SeedError
from intarsia.seed.watch import Times

_SHOWN = 500
#: What runs there, each after what it imports. It needs nothing but the standard library, so that
#: nothing need be installed.
_SENT = (watch, probe, together, compute, leases, links)
_TEXT = """\
import json, sys, types
def module(name, text=""):
    made = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), made.__dict__)
    return made
for name in ("intarsia", "intarsia.seed"):
    module(name)
for name, text in {sources!r}:
    module(name, text)
sys.modules["intarsia.seed.watch"].keeps_disturbed = {keeps_disturbed!r}
print(json.dumps(sys.modules[{module!r}].{function}({directory!r}, {number!r})))
"""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a store is seen besides: its directory there, and the words that run a program there.

    Without words it is this host. The other host needs `python3` and nothing else.
    """

    directory: Path
    through: tuple[str, ...] = ()

    def far(self, name: str, count: int, limit_s: float) -> Times:
        """Look at what was written here; `name` is the directory of the measurement."""
        return self._call(links.far, name, count, limit_s)

    def beside(self, name: str, number: int, limit_s: float) -> Times:
        """Look at the largest file; `number` is that of the host."""
        return self._call(links.beside, name, number, limit_s)

    def facts(self, limit_s: float) -> Times:
        """Ask the kernel there for processors and memory."""
        return self._call(compute.facts, "", 0, limit_s)

    def _call(
        self, function: Callable[[str, int], Times], name: str, number: int, limit_s: float
    ) -> Times:
        directory = str(self.directory / name)
        text = _text(function, directory, number)
        words = [*self.through, "python3" if self.through else sys.executable, "-I", "-"]
        try:
            done = subprocess.run(
                words, input=text, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except FileNotFoundError:
            raise SeedError(f"--through: there is no program {words[0]!r}") from None
        except subprocess.TimeoutExpired:
            raise SeedError(f"{directory}: no answer from there in {limit_s:.0f} s") from None
        if done.returncode:
            said = done.stderr.strip()[-_SHOWN:] or f"exit code {done.returncode}"
            raise SeedError(
                f"{directory}: cannot be measured there: {said}\n"
                "help: is it the same directory, as the other host sees it?"
            )
        try:
            times: Times = json.loads(done.stdout.splitlines()[-1])
        except (ValueError, IndexError):
            raise SeedError(f"{directory}: no times came from there") from None
        return times


def _text(function: Callable[[str, int], Times], directory: str, number: int) -> str:
    """Return the program that calls a function there, with all that it needs."""
    sources = [(one.__name__, Path(str(one.__file__)).read_text(encoding="utf-8")) for one in _SENT]
    return _TEXT.format(
        sources=sources,
        keeps_disturbed=watch.keeps_disturbed,
        module=function.__module__,
        function=function.__name__,
        directory=directory,
        number=number,
    )
