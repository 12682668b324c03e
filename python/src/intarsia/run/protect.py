"""Copies or recomputation: for the files of each task the cheaper way to survive a lost host.

Copies cost the link that carries them, whether a host is lost or not. Making a file again costs
only when its host is lost while it is needed, but then all that its maker takes, and the makers of
what this reads and of which there is no copy either. A pure function of measured costs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from intarsia.learn.measured import Measured
from intarsia.learn.observed import Role
from intarsia.run.graph import Graph
from intarsia.run.hints import role_in
from intarsia.schedule.host import LINK_BYTES_PER_S
from intarsia.units import bytes_text

# Fitted to the public records of LANL's clusters: 1,600 to 4,100 h for a node.
HOST_MTBF_H = 3000.0
#: Hints with which a store makes no copies.
_EXCLUDING = ("stripe:", "scatter:")


@dataclass(frozen=True, slots=True)
class Risk:
    """What is weighed: the rate of a link, and hours between losses of a host in the mean."""

    link_bytes_per_s: float = LINK_BYTES_PER_S
    host_mtbf_h: float = HOST_MTBF_H

    def loss_within(self, seconds: float) -> float:
        """Return how probable it is that one host is lost in that time (exponential)."""
        return -math.expm1(-seconds / (self.host_mtbf_h * 3600))


@dataclass(frozen=True, slots=True)
class Choice:
    """What is done for one file: `copies` on different hosts, of which 1 is no more than the file.

    `copy_s`: seconds of a link for a second copy of all that its maker makes. `remake_s`: seconds
    to make it again, and `chance` how probable it is that this is needed.
    """

    copies: int
    size_bytes: float
    copy_s: float
    remake_s: float
    chance: float

    @property
    def why(self) -> str:
        """Why, for a person."""
        way = "copies are cheaper" if self.copies > 1 else "making them again is cheaper"
        return (
            f"{way}: a copy takes a link {self.copy_s:.3g} s; making again takes "
            f"{self.remake_s:.3g} s, with a chance of {self.chance:.2g}"
        )


def choices_of(graph: Graph, measured: Mapping[Role, Measured], risk: Risk) -> dict[str, Choice]:
    """Return what is cheaper for each file whose rule was measured; the rest is made again.

    Files of one task go together: who makes one of them again makes all. What a task reads of its
    inputs' host is taken to be lost with it, so that a chain without copies is made again whole;
    the time of all tasks together is the most that this can take.
    """
    found: dict[str, Choice] = {}
    remake_s: dict[str, float] = {}
    known = {file: measured.get(role_in(graph, file)) for file in graph.producer}
    total_s = sum(_took_s(graph, name, known) for name in graph.tasks)
    for name, task in graph.tasks.items():
        lost = {
            graph.producer[file]
            for file in task.inputs
            if file in graph.producer and (file not in found or found[file].copies == 1)
        }
        own_s = _took_s(graph, name, known)
        remake_s[name] = min(total_s, own_s + sum(remake_s[maker] for maker in lost))
        costs = {file: cost for file in task.outputs if (cost := known[file]) is not None}
        if costs:
            choice = _choice(list(costs.values()), remake_s[name], risk)
            found |= {
                file: replace(choice, size_bytes=cost.size_bytes) for file, cost in costs.items()
            }
    return found


def _choice(costs: list[Measured], remake_s: float, risk: Risk) -> Choice:
    size_bytes = sum(cost.size_bytes for cost in costs)
    copy_s = size_bytes / risk.link_bytes_per_s
    chance = risk.loss_within(max(cost.needed_s for cost in costs))
    return Choice(2 if copy_s < chance * remake_s else 1, size_bytes, copy_s, remake_s, chance)


def _took_s(graph: Graph, name: str, known: Mapping[str, Measured | None]) -> float:
    return max(
        (one.took_s for file in graph.tasks[name].outputs if (one := known[file])), default=0
    )


def with_copies(
    hints: Mapping[str, Mapping[str, str]], choices: Mapping[str, Choice]
) -> dict[str, dict[str, str]]:
    """Return hints with copies for the files for which they are chosen.

    A number of copies that is there already stays, and so does a striped file.
    """
    found = {file: dict(some) for file, some in hints.items()}
    for file, choice in choices.items():
        own = found.get(file, {})
        is_excluded = (
            own.get("place", "").startswith(_EXCLUDING) or own.get("integrity") == "strict"
        )
        if choice.copies > 1 and not is_excluded:
            found[file] = {"replicas": str(choice.copies)} | own
    return found


def told_of(graph: Graph, choices: Mapping[str, Choice]) -> list[dict[str, Any]]:
    """Return what a report tells, by rule: bytes and seconds, as the names say."""
    roles: dict[Role, list[Choice]] = defaultdict(list)
    for file, choice in choices.items():
        roles[role_in(graph, file)].append(choice)
    return [
        {
            "rule": str(role),
            "files": len(some),
            "size_bytes": round(sum(one.size_bytes for one in some)),
            "with_copies": sum(one.copies > 1 for one in some),
            "copy_s": round(max(one.copy_s for one in some), 6),
            "remake_s": round(max(one.remake_s for one in some), 3),
            "chance": max(one.chance for one in some),
            "why": max(some, key=lambda one: one.chance * one.remake_s).why,
        }
        for role, some in roles.items()
    ]


#: Heads of what `row_of_told` returns.
HEADS = ("rule", "files", "bytes", "with copies", "why")


def row_of_told(told: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a table shows of one entry of `told_of`."""
    return (
        told["rule"],
        str(told["files"]),
        bytes_text(told["size_bytes"]),
        str(told["with_copies"]),
        told["why"],
    )
