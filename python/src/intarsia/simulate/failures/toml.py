"""A fit as the `[failures]` table of a scenario for `intarsia simulate checkpoint`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tomli_w

from intarsia.simulate.failures.fit import Family, Fit
from intarsia.simulate.failures.goodness import Goodness


def failures_table(
    lifetime: Fit,
    *,
    source: str,
    nodes: int | None = None,
    repair: Fit | None = None,
    bursts: Mapping[int, int] | None = None,
    goodness: Goodness | None = None,
) -> dict[str, Any]:
    """Return the content of `[failures]`.

    With `nodes` the gaps are those of a whole machine of so many nodes, which the simulator scales
    to other sizes in proportion; without, they are those of one node.
    """
    table: dict[str, Any] = {"scope": "system" if nodes else "node"}
    if nodes:
        table["nodes"] = nodes
    table["lifetime"] = distribution(lifetime)
    if repair is not None:
        table["repair"] = distribution(repair)
    if bursts:
        table["bursts"] = {
            "window": "60 s",
            "sizes": [[size, float(events)] for size, events in bursts.items()],
        }
    table["fit"] = {
        "source": source,
        "method": f"maximum likelihood; {lifetime.gaps.what}; {lifetime.gaps.censoring}",
        "n": len(lifetime.gaps.hours),
        "confidence": 0.95,
        "intervals": {name: list(bounds) for name, bounds in _intervals(lifetime).items()},
        "goodness": {"aic": lifetime.aic} | ({} if goodness is None else _tests(goodness)),
    }
    return table


def as_toml(table: Mapping[str, Any]) -> str:
    """Return the text of a file that holds the table `[failures]`."""
    head = "# Use it in a scenario of `intarsia simulate checkpoint`.\n"
    return head + tomli_w.dumps({"failures": table})


def distribution(fit: Fit) -> dict[str, Any]:
    """Return a fit as a scenario writes distributions of times."""
    match fit.family:
        case Family.EXPONENTIAL:
            return {"model": "exponential", "mean": _hours(fit["mean"])}
        case Family.WEIBULL:
            return {"model": "weibull", "shape": fit["shape"], "scale": _hours(fit["scale"])}
        case Family.LOG_NORMAL:
            median = _hours(math.exp(fit["mu"]))
            return {"model": "log-normal", "median": median, "sigma": fit["sigma"]}
        case Family.GAMMA:
            return {"model": "gamma", "shape": fit["shape"], "scale": _hours(fit["scale"])}


def _intervals(fit: Fit) -> dict[str, tuple[float, float]]:
    """Return the intervals of numbers as they are and of times in seconds."""
    intervals = {}
    for one in fit.parameters:
        match one.unit:
            case "h":
                intervals[f"{one.name}_seconds"] = (one.low * 3600, one.high * 3600)
            case "ln h":
                bounds = (math.exp(one.low) * 3600, math.exp(one.high) * 3600)
                intervals["median_seconds"] = bounds
            case _:
                intervals[one.name] = (one.low, one.high)
    return intervals


def _tests(goodness: Goodness) -> dict[str, float]:
    return {
        "ks": goodness.ks,
        "ks_p": goodness.ks_p,
        "ad": goodness.ad,
        "ad_p": goodness.ad_p,
        "resamples": float(goodness.resamples),
    }


def _hours(value: float) -> str:
    return f"{value:.10g} h"
