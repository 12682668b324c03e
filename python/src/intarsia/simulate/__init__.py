"""Simulators for the extreme scale, from a notebook.

`checkpoint` asks which share of a machine's time is useful work when nodes fail, `scale` what a
file system over all nodes of a machine delivers, `sweep` runs either over a grid of values on all
cores or a Dask cluster. `failures` fits distributions to failure records.

The simulating is done by the `intarsia` binary, found through `INTARSIA_BIN`, this checkout's
build, or the PATH. Needs the extra `simulate` (`pip install 'intarsia[simulate]'`).

    from intarsia import simulate

    result = simulate.checkpoint("rxsim-dfs", machine__nodes=65_536)
    print(result["efficiency"])
    frame = simulate.sweep("checkpoint", "rxsim-dfs", {"machine.nodes": [1024, 65_536]})
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intarsia.simulate import failures
    from intarsia.simulate.api import checkpoint, presets, scale, sweep
    from intarsia.simulate.binary import SimulationError
    from intarsia.simulate.result import Estimate, Result

__all__ = [
    "Estimate",
    "Result",
    "SimulationError",
    "checkpoint",
    "failures",
    "presets",
    "scale",
    "sweep",
]

_MODULES = {
    "Estimate": "result",
    "Result": "result",
    "SimulationError": "binary",
    "checkpoint": "api",
    "presets": "api",
    "scale": "api",
    "sweep": "api",
}


def __getattr__(name: str) -> Any:
    """Import a part when it is first used: Dask and lifelines take seconds.

    Other analyses draw and write reports with `intarsia.simulate.report` and need neither.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name == "failures":
            found: Any = importlib.import_module(f"{__name__}.failures")
        else:
            found = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("intarsia"):
            raise
        raise ModuleNotFoundError(
            f"intarsia.simulate needs {error.name}: pip install 'intarsia[simulate]'",
            name=error.name,
        ) from error
    globals()[name] = found
    return found
