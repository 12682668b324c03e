"""Results of a simulation: estimates with intervals and units."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from intarsia.simulate.binary import SimulationError


@dataclass(frozen=True)
class Estimate:
    """A mean over replications and half the width of its 95 % confidence interval."""

    mean: float
    half_width: float | None
    n: int
    unit: str

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + (self.half_width or 0.0)

    def __float__(self) -> float:
        return self.mean

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if self.half_width is None:
            return f"{self.mean:.6g}{unit}"
        return f"{self.mean:.6g} ± {self.half_width:.2g}{unit}"

    @classmethod
    def from_json(cls, name: str, data: Any) -> Estimate:
        """Read an estimate out of an envelope."""
        try:
            half_width = data.get("half_width")
            return cls(
                mean=float(data["mean"]),
                half_width=None if half_width is None else float(half_width),
                n=int(data.get("n", 1)),
                unit=_unit(data.get("unit")),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SimulationError(f"estimate `{name}` is no estimate: {data!r}") from error


@dataclass(frozen=True, repr=False)
class Result(Mapping[str, Estimate]):
    """What one simulation found: a mapping of names to estimates, and how it was made.

    >>> from intarsia import simulate
    >>> result = simulate.checkpoint("rxsim-dfs", machine__nodes=1024, run__replications=3)
    >>> result["efficiency"].n, result["efficiency"].unit
    (3, 'share')
    """

    kind: str
    version: str
    scenario: dict[str, Any]
    seed: int | None
    replications: int | None
    estimates: dict[str, Estimate]
    derived: dict[str, Estimate]
    """What follows from the scenario without simulation, such as the interval; it has no "
    "interval."""
    run: dict[str, Any]

    @classmethod
    def from_json(cls, envelope: dict[str, Any]) -> Result:
        """Read the envelope that the binary prints with `--json`."""
        return cls(
            kind=str(envelope.get("kind", "")),
            version=str(envelope.get("version", "")),
            scenario=envelope.get("scenario", {}),
            seed=envelope.get("seed"),
            replications=envelope.get("replications"),
            estimates={
                name: Estimate.from_json(name, data) for name, data in envelope["estimates"].items()
            },
            derived={
                name: Estimate.from_json(name, {"mean": data["value"], "unit": data.get("unit")})
                for name, data in envelope.get("derived", {}).items()
            },
            run=envelope.get("run", {}),
        )

    def __getitem__(self, name: str) -> Estimate:
        try:
            return self.estimates[name]
        except KeyError:
            raise KeyError(f"no estimate {name!r}; there are: {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def to_frame(self) -> pd.DataFrame:
        """Return one row an estimate: mean, half_width, n, unit."""
        rows = [
            (name, one.mean, one.half_width, one.n, one.unit)
            for name, one in self.estimates.items()
        ]
        return pd.DataFrame(rows, columns=["estimate", "mean", "half_width", "n", "unit"])

    def __str__(self) -> str:
        width = max((len(name) for name in self), default=0)
        head = f"{self.kind} ({self.replications} replications, seed {self.seed})"
        return "\n".join([head, *(f"  {name:{width}}  {self[name]}" for name in self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(one))}</td></tr>"
            for name, one in self.estimates.items()
        )
        head = f"{self.kind}, {self.replications} replications, seed {self.seed}"
        return f"<table><caption>{html.escape(head)}</caption>{rows}</table>"


def _unit(unit: Any) -> str:
    """Write `1`, the unit of a ratio, as nothing."""
    return "" if unit in (None, "1", "ratio") else str(unit)
