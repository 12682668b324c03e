"""Scenarios as the binary takes them: a TOML text and single fields set on top of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from intarsia.simulate.binary import SimulationError

Source = str | Path | Mapping[str, Any]
"""What a scenario can be given as: the name of a preset, a TOML file, or nested dictionaries."""


@dataclass(frozen=True)
class Scenario:
    """A scenario before the binary has read it."""

    text: str
    name: str = "scenario"
    """How messages call it: the path of the file it came from."""
    directory: Path | None = None
    """From where it names other files."""
    assignments: tuple[str, ...] = ()
    """Fields that replace those of the text, such as `machine.nodes=16`."""

    @classmethod
    def load(cls, source: Source) -> Scenario:
        """Read a scenario from a file (a name that ends in `.toml`), a preset, or a mapping."""
        if isinstance(source, Mapping):
            return cls(_dumps(source))
        if isinstance(source, str) and not source.endswith(".toml"):
            return cls(_dumps({"preset": source}), name=f"preset {source}")
        path = Path(source)
        return cls(read_text(path), name=str(path), directory=path.resolve().parent)

    def override(self, fields: Mapping[str, Any]) -> Scenario:
        """Return the scenario with fields replaced; the last one to name a field wins.

        A name is a path such as `machine.nodes`, or `level.pfs.bandwidth` for the entry of a list
        by its name. A double underscore is as good as a dot, for keyword arguments. A dictionary
        sets each of its fields.

        >>> Scenario.load("rxsim-pfs").override({"machine": {"nodes": 16}}).assignments
        ('machine.nodes=16',)
        """
        added = tuple(f"{path}={_inline(value, path)}" for path, value in _flat(fields))
        return replace(self, assignments=self.assignments + added)


def read_text(path: Path) -> str:
    """Read a text file; an error names it."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SimulationError(f"{path}: cannot be read: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; an error names the file, the line and the column."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise SimulationError(f"{path}: not TOML: {error}") from error


def _flat(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        path = above + name.replace("__", ".")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}.")
        else:
            yield path, value


def _inline(value: Any, name: str) -> str:
    """Write a value as TOML does within a line."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(one, name) for one in value) + "]"
    # numpy's and pandas' numbers are not Python's.
    plain = value.item() if hasattr(value, "item") else value
    return _dumps({"value": plain}, name).removeprefix("value = ").strip()


def _dumps(value: Mapping[str, Any], path: str = "scenario") -> str:
    try:
        return tomli_w.dumps(value)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"{path}: {error}; TOML has numbers, texts, lists, tables") from error
