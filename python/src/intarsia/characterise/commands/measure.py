"""`measure`: loads on a store, as samples for a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise import commands as shared
from intarsia.characterise import design, samples, stores
from intarsia.characterise.balance import study
from intarsia.characterise.load import Points, load_of
from intarsia.characterise.model.base import Samples
from intarsia.characterise.samples import Measurements
from intarsia.simulate.progress import Progress

_AT_ONCE = 100


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "measure",
        "measure loads on a simulated store",
        "Measure single loads that fill the space of random share, read share, size and "
        "outstanding "
        "requests evenly, and groups of usual loads together. 400 loads give a better model "
        "than the "
        "published grid of 1600. The file is what `fit` and `compare` read.",
        "  python -m intarsia.characterise measure fc-raid5 --out fast.csv\n"
        "  python -m intarsia.characterise measure ssd --points 200 --groups 0 --out ssd.csv\n"
        "  python -m intarsia.characterise measure disk --grid --out grid.csv     the published "
        "1600\n",
    )
    parser.add_argument("store", metavar="STORE", help="a name that `stores` lists")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.csv", help="the samples")
    parser.add_argument("--points", type=shared.positive, default=400, help="single loads (400)")
    parser.add_argument("--groups", type=int, default=80, help="groups measured together (80)")
    parser.add_argument(
        "--grid", action="store_true", help="the published grid instead of --points"
    )
    parser.add_argument("--requests", type=shared.positive, default=800, help="of each load (800)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Measure and write."""
    settings = stores.preset(chosen.store)
    points = design.grid() if chosen.grid else _points(chosen)
    groups = study.random_mixes(max(chosen.groups, 0), chosen.seed + 100)
    cases = [(settings, [load_of(row)]) for row in points]
    cases += [(settings, group) for group in groups]
    latencies: list[float] = []
    with Progress(chosen.store, len(cases)) as progress:
        for start in range(0, len(cases), _AT_ONCE):
            part = cases[start : start + _AT_ONCE]
            found = stores.measure(part, seed=chosen.seed + start, requests=chosen.requests)
            latencies += [one.mean_ms for one in found]
            for _ in part:
                progress.step()
    measured = np.array(latencies)
    single = Samples(points, measured[: len(points)])
    groups_measured = measured[len(points) :]
    samples.write(chosen.out, Measurements(single, tuple(map(tuple, groups)), groups_measured))
    shared.console().print(
        f"{chosen.out}: {len(points)} loads and {len(groups)} groups on {chosen.store}, "
        f"{single.latency_ms.min():.3g} to {single.latency_ms.max():.4g} ms"
    )


def _points(chosen: argparse.Namespace) -> Points:
    return design.spread(chosen.points, design.BALANCING, chosen.seed)
