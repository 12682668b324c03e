"""`measure`: loads on a store, as samples for a model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise import commands as shared
from intarsia.characterise import design, samples, stores
from intarsia.characterise.balance.draws import random_mixes
from intarsia.characterise.commands.target import add_options, open_target
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import READ, Floats, Load, Points, load_of, points_of
from intarsia.characterise.model.base import Samples
from intarsia.characterise.samples import Measurements
from intarsia.characterise.stores import real
from intarsia.characterise.stores.rounds import kept_beside, measure_rounds, spread_of
from intarsia.characterise.units import size_of
from intarsia.simulate.progress import Progress

_AT_ONCE = 100
_REAL = design.Region(3072, 3 * 2**17, 1, 40)
"""What is asked of a real store, within seconds and a file of moderate size.

A model refuses what lies outside the loads that were drawn, so the region is wider than requests of
4 KiB to 256 KiB, 32 of them outstanding: of 40 loads one lies at 4 KiB or below almost surely.
"""
_LARGEST_BYTES = 2**18
"""Of groups."""


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "measure",
        "measure loads on a real or simulated store",
        "Measure single loads that fill the space of random share, read share, size and "
        "outstanding requests evenly, and groups of usual loads together. A store is the name of "
        "a simulated one, or a directory or device, where fio runs. The file is what `fit` and "
        "`compare` read. A real store is measured in rounds, so that what else the machine does "
        "for a while spoils no load. An interrupted measurement goes on where it was.",
        "  python -m intarsia.characterise measure fc-raid5 --out fast.csv\n"
        "  python -m intarsia.characterise measure ssd --points 200 --groups 0 --out ssd.csv\n"
        "  python -m intarsia.characterise measure /mnt/store --out mine.csv\n"
        "  python -m intarsia.characterise measure . --delay-ms 2 --rate 40MB --out slow.csv\n"
        "  python -m intarsia.characterise measure disk --grid --out grid.csv     the published "
        "1600\n",
    )
    parser.add_argument("store", metavar="STORE", help="a name that `stores` lists, or a path")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.csv", help="the samples")
    parser.add_argument(
        "--points", type=shared.positive, help="single loads (400; 120 on a real store)"
    )
    parser.add_argument("--groups", type=int, help="measured together (80; 24 on a real store)")
    parser.add_argument(
        "--grid", action="store_true", help="the published grid instead of --points"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
    simulated = parser.add_argument_group("a simulated store")
    simulated.add_argument(
        "--requests", type=shared.positive, default=800, help="of each load (800)"
    )
    real_ones = parser.add_argument_group("a real store")
    real_ones.add_argument(
        "--seconds", type=float, default=0.5, help="for each load in a round (0.5)"
    )
    real_ones.add_argument(
        "--rounds",
        type=shared.positive,
        default=3,
        help="each load is measured so often, at other times; the median counts (3)",
    )
    real_ones.add_argument("--size", default="256m", help="of the file that is used (256m)")
    real_ones.add_argument(
        "--buffered", action="store_true", help="through the page cache, not past it"
    )
    real_ones.add_argument("--only-reads", action="store_true", help="no load writes")
    add_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Measure and write."""
    is_real = chosen.store not in stores.presets()
    if is_real and not Path(chosen.store).exists():
        raise CharacteriseError(
            f"{chosen.store} is no path, and no simulated store; there are "
            f"{', '.join(stores.presets())}"
        )
    points = _points(chosen, is_real)
    groups = random_mixes(_count(chosen.groups, 24 if is_real else 80), chosen.seed + 100)
    if is_real:
        groups = [[_fitting(load) for load in group] for group in groups]
    if chosen.only_reads:
        points[:, READ] = 100
        groups = [[Load(one.random, 100, one.bytes, one.outstanding) for one in g] for g in groups]
    cases = [[load_of(row)] for row in points] + groups
    found = _real(chosen, cases) if is_real else _simulated(chosen, cases)
    measured = np.array(found)
    single = Samples(points, measured[: len(points)])
    groups_measured = measured[len(points) :]
    samples.write(chosen.out, Measurements(single, tuple(map(tuple, groups)), groups_measured))
    shared.console().print(
        f"{chosen.out}: {len(points)} loads and {len(groups)} groups on {chosen.store}, "
        f"{single.latency_ms.min():.3g} to {single.latency_ms.max():.4g} ms"
    )


def _simulated(chosen: argparse.Namespace, cases: Sequence[list[Load]]) -> list[float]:
    settings = stores.preset(chosen.store)
    latencies: list[float] = []
    with Progress(chosen.store, len(cases)) as progress:
        for start in range(0, len(cases), _AT_ONCE):
            part = [(settings, loads) for loads in cases[start : start + _AT_ONCE]]
            found = stores.measure(part, seed=chosen.seed + start, requests=chosen.requests)
            latencies += [one.mean_ms for one in found]
            for _ in part:
                progress.step()
    return latencies


def _real(chosen: argparse.Namespace, cases: Sequence[list[Load]]) -> list[float]:
    way = real.Way(
        seconds=chosen.seconds,
        size_bytes=int(size_of(chosen.size, "--size")),
        is_buffered=chosen.buffered,
    )
    with (
        open_target(chosen, Path(chosen.store), way.size_bytes) as target,
        kept_beside(chosen.out, [target.label, asdict(way), chosen.rounds, _plain(cases)]) as kept,
        Progress(target.label, chosen.rounds * len(cases)) as progress,
    ):

        def one(number: int) -> float:
            target.require()
            latency_ms = real.measure(target, cases[number], way)
            # Else it may have been measured somewhere else.
            target.require()
            return latency_ms

        try:
            found = measure_rounds(len(cases), chosen.rounds, chosen.seed, kept, one, progress.step)
        finally:
            real.tidy(target)
    if chosen.rounds > 1:
        _tell_spread(found)
    return [float(latency) for latency in np.median(found, axis=0)]


def _tell_spread(found: Floats) -> None:
    spread = spread_of(found)
    shared.say(
        f"over {len(found)} rounds the slowest measurement of a load is {np.median(spread):.0%} "
        f"above its median (half of the loads), {np.quantile(spread, 0.9):.0%} (one in ten); "
        "the medians count"
    )


def _plain(cases: Sequence[list[Load]]) -> list[Any]:
    return [points_of(case).tolist() for case in cases]


def _count(given: int | None, usual: int) -> int:
    return usual if given is None else max(given, 0)


def _fitting(load: Load) -> Load:
    """Return a usual load with requests no larger than those that were measured by themselves."""
    return Load(load.random, load.read, min(load.bytes, _LARGEST_BYTES), load.outstanding)


def _points(chosen: argparse.Namespace, is_real: bool) -> Points:
    if chosen.grid:
        return design.grid()
    count = chosen.points or (120 if is_real else 400)
    return design.spread(count, _REAL if is_real else design.BALANCING, chosen.seed)
