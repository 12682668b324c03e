"""What a notebook calls."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from intarsia.simulate import binary
from intarsia.simulate.binary import SimulationError
from intarsia.simulate.result import Result
from intarsia.simulate.scenario import Scenario, Source
from intarsia.simulate.study.frame import results_frame
from intarsia.simulate.study.point import KINDS, grid
from intarsia.simulate.study.run import run_points
from intarsia.simulate.study.store import PointStore


def checkpoint(scenario: Source, /, **overrides: Any) -> Result:
    """Simulate jobs that checkpoint on a machine whose nodes fail.

    `scenario` is the name of a preset (see `presets`), a TOML file, or nested dictionaries with the
    fields of one. A keyword replaces a field: `machine__nodes=1024` sets the field `nodes` of
    `[machine]`, and so do `machine={"nodes": 1024}` and `**{"machine.nodes": 1024}`.
    Quantities are written with their units, as in `"5 years"`.

    What is wrong with a scenario is said by the binary, with line and field, as `SimulationError`.

    >>> from intarsia import simulate
    >>> result = simulate.checkpoint("rxsim-dfs", machine__nodes=1024, run__replications=3)
    >>> 0.99 < result["efficiency"].mean < 1
    True
    """
    return _one("checkpoint", scenario, overrides)


def scale(scenario: Source, /, **overrides: Any) -> Result:
    """Simulate a file system over all nodes of a machine, for one number of nodes.

    Arguments as for `checkpoint`. For several numbers of nodes use `sweep`.

    >>> from intarsia import simulate
    >>> result = simulate.scale("fusionsim-bgp", nodes__count=64)
    >>> result["write.throughput"].unit
    'B/s'
    """
    return _one("scale", scenario, overrides)


def sweep(
    kind: str,
    scenario: Source,
    axes: Mapping[str, Sequence[Any]],
    /,
    *,
    directory: str | Path | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    quiet: bool = False,
    **overrides: Any,
) -> pd.DataFrame:
    """Simulate every combination of the axes' values and return one row for each.

    `kind` is `checkpoint` or `scale`; `axes` maps fields, such as `machine.nodes`, to their values.
    The columns are the axes, then for each estimate its mean and `…_half_width`, half of the
    confidence interval. `frame.attrs["units"]` holds the units.

    With `directory` finished points are kept there and not computed again. `scheduler` is the
    address of a Dask scheduler; without it the sweep runs on this machine, `workers` points at a
    time.

    >>> from intarsia import simulate
    >>> frame = simulate.sweep(
    ...     "checkpoint",
    ...     "rxsim-dfs",
    ...     {"machine.nodes": [1024, 4096]},
    ...     run__replications=3,
    ...     quiet=True,
    ... )
    >>> list(frame["machine.nodes"]), bool((frame["efficiency"] > 0.99).all())
    ([1024, 4096], True)
    """
    if kind not in KINDS:
        raise SimulationError(f"there is no simulator {kind!r}; there are: {', '.join(KINDS)}")
    points = grid(kind, Scenario.load(scenario).override(overrides), axes)
    with tempfile.TemporaryDirectory(prefix="intarsia-sweep-") as scratch:
        envelopes = run_points(
            points,
            PointStore(Path(directory or scratch)),
            title=f"{kind} sweep",
            scheduler=scheduler,
            workers=workers,
            quiet=quiet,
        )
    return results_frame(points, envelopes)


def presets() -> pd.DataFrame:
    """List the scenarios that come with the binary: kind, name, summary.

    >>> from intarsia import simulate
    >>> "rxsim-pfs" in set(simulate.presets()["name"])
    True
    """
    return pd.DataFrame(binary.presets(), columns=["kind", "name", "summary"])


def _one(kind: str, scenario: Source, overrides: Mapping[str, Any]) -> Result:
    found = binary.locate()
    envelopes = binary.simulate(found.path, kind, Scenario.load(scenario).override(overrides))
    if len(envelopes) != 1:
        raise SimulationError(f"the scenario describes {len(envelopes)} cases; use simulate.sweep")
    return Result.from_json(envelopes[0])
