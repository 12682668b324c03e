"""A user's own study: a scenario and axes, in a TOML file.

```toml
[study]
name = "interval"                 # of the report and of its files
kind = "checkpoint"               # or "scale"
title = "How long should a checkpoint interval be?"
scenario = "machine.toml"         # relative to this file; or preset = "rxsim-pfs"
plot = ["efficiency"]             # estimates to draw; all of them without this

[study.axes]                      # every combination is simulated; the first axis is drawn along x
"checkpoint.interval" = ["10 min", "30 min", "1 h", "2 h"]
"machine.nodes" = [1024, 16384]

[scenario]                        # laid over the file or preset
run.replications = 20
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.simulate.binary import SimulationError
from intarsia.simulate.scenario import Scenario, read_toml
from intarsia.simulate.study.point import KINDS, Point, grid
from intarsia.simulate.study.user import UserStudy

_FIELDS = {"name", "kind", "title", "scenario", "preset", "plot", "axes"}


@dataclass(frozen=True)
class Definition:
    """What a study file says."""

    study: UserStudy
    points: list[Point]

    @classmethod
    def read(cls, path: Path) -> Definition:
        """Read a study file; an error names the file and the field."""
        content = read_toml(path)
        study = _table(content, "study", path)
        for name in study.keys() - _FIELDS:
            raise _refusal(
                path, f"study.{name}", f"unknown; there are {', '.join(sorted(_FIELDS))}"
            )
        for name in content.keys() - {"study", "scenario"}:
            raise _refusal(path, name, "unknown; there are [study] and [scenario]")
        kind = _text(study, "kind", path)
        if kind not in KINDS:
            raise _refusal(
                path, "study.kind", f"{kind!r} is no simulator; use {' or '.join(KINDS)}"
            )
        name = _text(study, "name", path)
        axes = _axes(study, path)
        scenario = _scenario(content, study, path)
        study_shown = UserStudy(
            name=name,
            title=study.get("title", name),
            axes=tuple(axes),
            plot=_texts(study, "plot", path),
        )
        return cls(study_shown, grid(kind, scenario, axes))


def _scenario(content: dict[str, Any], study: dict[str, Any], path: Path) -> Scenario:
    if "scenario" in study and "preset" in study:
        raise _refusal(path, "study.preset", "a scenario is named as well; keep one of them")
    if "scenario" in study:
        scenario = Scenario.load(path.parent / _text(study, "scenario", path))
    elif "preset" in study:
        scenario = Scenario.load(_text(study, "preset", path))
    elif "scenario" in content:
        return Scenario.load(_table(content, "scenario", path))
    else:
        raise _refusal(path, "study.scenario", "missing; name a TOML file, or a preset")
    return scenario.override(_table(content, "scenario", path) if "scenario" in content else {})


def _axes(study: dict[str, Any], path: Path) -> dict[str, list[Any]]:
    axes = _table(study, "axes", path, "study.axes")
    if not axes:
        raise _refusal(path, "study.axes", 'empty; write like "machine.nodes" = [1024, 2048]')
    for name, values in axes.items():
        if isinstance(values, dict):
            raise _refusal(
                path, f"study.axes.{name}", f'a table; quote dotted names: "{name}.…" = […]'
            )
        if not isinstance(values, list) or not values:
            raise _refusal(path, f"study.axes.{name}", f"{values!r} is no list of values")
    return axes


def _table(
    content: dict[str, Any], name: str, path: Path, shown: str | None = None
) -> dict[str, Any]:
    value = content.get(name)
    if not isinstance(value, dict):
        raise _refusal(
            path, shown or name, "missing; it is a table" if value is None else "no table"
        )
    return value


def _text(study: dict[str, Any], name: str, path: Path) -> str:
    value = study.get(name)
    if not isinstance(value, str) or not value:
        problem = "missing" if value is None else f"{value!r} is no text"
        raise _refusal(path, f"study.{name}", problem)
    return value


def _texts(study: dict[str, Any], name: str, path: Path) -> tuple[str, ...]:
    values = study.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _refusal(path, f"study.{name}", f"{values!r} is no list of names")
    return tuple(values)


def _refusal(path: Path, field: str, problem: str) -> SimulationError:
    return SimulationError(f"{path}: field `{field}`: {problem}")
