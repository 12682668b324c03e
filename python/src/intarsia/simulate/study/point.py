"""One point of a study: a scenario and the labels under which its results appear in tables."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intarsia.simulate import binary
from intarsia.simulate.binary import Binary, SimulationError
from intarsia.simulate.scenario import Scenario

KINDS = ("checkpoint", "scale")


@dataclass(frozen=True)
class Point:
    """A scenario for one of the simulators."""

    kind: str
    scenario: Scenario
    labels: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        labels = ", ".join(f"{name} {value}" for name, value in self.labels.items())
        return labels or f"{self.kind} {self.scenario.name}"

    def key(self, found: Binary) -> str:
        """Check the scenario and return the name of its result.

        The name is the same for the same effective scenario, the same content of the files that it
        names, and the same binary.
        """
        try:
            scenario = binary.effective(found.path, self.kind, self.scenario)
        except SimulationError as error:
            raise SimulationError(f"point {self}: {error}") from error
        named = dict(_named_files(scenario, self.scenario.directory or Path()))
        text = json.dumps([self.kind, scenario, named, found.identity], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def grid(
    kind: str,
    scenario: Scenario,
    axes: Mapping[str, Sequence[Any]],
    labels: Mapping[str, Any] | None = None,
) -> list[Point]:
    """Return a point for each combination of the axes' values, the last axis running fastest.

    >>> base = Scenario.load("rxsim-dfs")
    >>> [point.labels for point in grid("checkpoint", base, {"machine.nodes": [8, 16]})]
    [{'machine.nodes': 8}, {'machine.nodes': 16}]
    """
    points = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        points.append(Point(kind, scenario.override(chosen), {**(labels or {}), **chosen}))
    return points


def _named_files(value: Any, directory: Path) -> Iterator[tuple[str, str]]:
    """Give name and digest of each file that a text in the scenario names."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _named_files(inner, directory)
    elif isinstance(value, str) and "\n" not in value and (directory / value).is_file():
        yield value, hashlib.sha256((directory / value).read_bytes()).hexdigest()
