"""Factor files: the knobs of a benchmark, their levels, and what they belong to."""

from __future__ import annotations

import string
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment.design import Design
from intarsia.characterise.units import size_of


class Kind(StrEnum):
    """What a knob belongs to."""

    WORKLOAD = "workload"
    SYSTEM = "system"
    BENCHMARK = "benchmark"


@dataclass(frozen=True)
class Factor:
    """A knob with two levels."""

    name: str
    low: str
    high: str
    kind: Kind

    def level(self, sign: int) -> str:
        """Return the level of -1 or 1."""
        return self.high if sign > 0 else self.low


class Tool(StrEnum):
    """What runs."""

    FIO = "fio"
    POSTMARK = "postmark"


@dataclass(frozen=True)
class Experiment:
    """Knobs, and how a run of a benchmark is made of their levels."""

    name: str
    factors: tuple[Factor, ...]
    options: dict[str, str]
    constants: dict[str, str]
    seconds: float
    warmup: float
    repetitions: int
    size_bytes: int
    tool: Tool = Tool.FIO
    metrics: tuple[str, ...] = ()
    """What is looked at; none: what is usual for the tool."""
    jobs: str = ""
    """The factor that says how many jobs of fio run at the same time."""
    alike: str = ""
    """The factor of which the high level makes these jobs equal; at the low level each takes the
    levels of another row of the design."""

    def options_of(self, signs: dict[str, int]) -> dict[str, str]:
        """Return the options of the tool for a level (-1 or 1) of each factor."""
        levels = {one.name: one.level(signs[one.name]) for one in self.factors} | self.constants
        return {name: text.format(**levels) for name, text in self.options.items()}

    def job_rows(self, design: Design, row: int) -> list[int]:
        """Return the row of the design from which each job of a run takes its options."""
        if not self.jobs:
            return [row]
        signs = design.run(row)
        (factor,) = (one for one in self.factors if one.name == self.jobs)
        count = int(factor.level(signs[self.jobs]))
        if not self.alike or signs[self.alike] > 0:
            return [row] * count
        return [(row + number) % len(design.signs) for number in range(count)]


_SETTINGS = {
    "name", "tool", "metrics", "seconds", "warmup", "repetitions", "size", "jobs", "alike",
}  # fmt: skip


def read_experiment(path: Path) -> Experiment:
    """Read a factor file.

    Raises `CharacteriseError` that names the file and the field.
    """
    try:
        table = tomllib.loads(path.read_text())
        return _experiment(table)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CharacteriseError(f"{path}: {error}") from None
    except CharacteriseError as error:
        raise CharacteriseError(f"{path}: {error}") from None


def read_built_in(name: str) -> Experiment:
    """Read a factor file that comes with the package, such as `postmark`."""
    with as_file(files(__package__) / f"{name}.toml") as path:
        return read_experiment(path)


def _experiment(table: dict[str, Any]) -> Experiment:
    settings = table.get("experiment", {})
    if unknown := set(settings) - _SETTINGS:
        raise CharacteriseError(
            f"experiment: unknown field {min(unknown)}; there are {', '.join(sorted(_SETTINGS))}"
        )
    factors = tuple(_factor(name, one) for name, one in table.get("factors", {}).items())
    if len(factors) < 2:
        raise CharacteriseError(
            "[factors]: give two at least, such as depth = { low = 1, high = 16 }"
        )
    made = Experiment(
        str(settings.get("name", "experiment")),
        factors,
        {name: str(text) for name, text in table.get("options", {}).items()},
        {name: str(value) for name, value in table.get("constants", {}).items()},
        _positive(settings.get("seconds", 10), "experiment.seconds"),
        float(settings.get("warmup", 0)),
        int(_positive(settings.get("repetitions", 3), "experiment.repetitions")),
        int(size_of(settings.get("size", "64m"), "experiment.size")),
        _tool(settings.get("tool", "fio")),
        tuple(str(one) for one in settings.get("metrics", ())),
        str(settings.get("jobs", "")),
        str(settings.get("alike", "")),
    )
    _require_use(made)
    return made


def _tool(text: Any) -> Tool:
    try:
        return Tool(text)
    except ValueError:
        raise CharacteriseError(f"experiment.tool: {text}; one of {', '.join(Tool)}") from None


def _factor(name: str, table: Any) -> Factor:
    place = f"factors.{name}"
    if not isinstance(table, dict) or not {"low", "high"} <= set(table):
        raise CharacteriseError(f'{place}: write {{ low = …, high = …, kind = "workload" }}')
    try:
        kind = Kind(table.get("kind", "workload"))
    except ValueError:
        raise CharacteriseError(f"{place}.kind: one of {', '.join(Kind)}") from None
    low, high = str(table["low"]), str(table["high"])
    if low == high:
        raise CharacteriseError(f"{place}: both levels are {low}; a knob that stands is no factor")
    return Factor(name, low, high, kind)


def _require_use(made: Experiment) -> None:
    """Every factor changes an option, and every name in an option is known."""
    used = {
        name
        for text in made.options.values()
        for _, name, _, _ in string.Formatter().parse(text)
        if name is not None
    }
    known = {one.name for one in made.factors}
    for field in ("jobs", "alike"):
        if (name := getattr(made, field)) and name not in known:
            raise CharacteriseError(f"experiment.{field}: there is no factor {name}")
    if unused := known - used - {made.jobs, made.alike}:
        raise CharacteriseError(f"factors.{min(unused)}: no option uses {{{min(unused)}}}")
    if unknown := used - known - set(made.constants):
        raise CharacteriseError(f"options: {{{min(unknown)}}} is no factor and no constant")


def _positive(value: Any, place: str) -> float:
    if not isinstance(value, int | float) or value <= 0:
        raise CharacteriseError(f"{place}: {value} is not a number above 0")
    return float(value)
