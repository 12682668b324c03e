"""`coverage`: what benchmarks, or sets of loads, cover, and what only one of them does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise import commands as shared
from intarsia.characterise import samples
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import coverage
from intarsia.characterise.experiment.coverage import Clusters, Components
from intarsia.characterise.experiment.coverage_figure import loads_figure, tree_figure
from intarsia.characterise.experiment.driver import read_runs, table
from intarsia.characterise.load import Floats, Points, points_of
from intarsia.simulate.report.write import write_figure

_METRICS = "read_throughput,write_throughput"


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "coverage",
        "say what benchmarks or sets of loads cover, and what only one of them does",
        "Of benchmarks (directories that `screen --out` wrote): take runs apart into independent "
        "components, by how far each moves a metric, and cluster those of all benchmarks. Of sets "
        "of loads (files that `measure` writes, latencies unused): cluster the loads in "
        "independent coordinates. What lies in a cluster of its own adds something.",
        "  python -m intarsia.characterise coverage build/fio build/small --out build/coverage\n"
        "  python -m intarsia.characterise coverage mine.csv usual.csv --out build/coverage\n",
    )
    parser.add_argument("sets", type=Path, nargs="+", metavar="SET", help="two or more")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="plots")
    parser.add_argument(
        "--metrics", default=_METRICS, help=f"that all benchmarks have, with commas ({_METRICS})"
    )
    parser.add_argument("--components", type=shared.positive, default=8, help="of each (8)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Cluster and print."""
    named = {path.name.removesuffix(".csv"): path for path in chosen.sets}
    if len(named) < 2 or len(named) < len(chosen.sets):
        raise CharacteriseError("give two sets at least, of different names")
    kinds = {path.is_dir() for path in chosen.sets}
    if len(kinds) > 1:
        raise CharacteriseError("benchmarks (directories) and loads (files) cannot be compared")
    of_benchmarks = kinds.pop()
    found = _benchmarks(chosen, named) if of_benchmarks else _loads(chosen, named)
    if chosen.json:
        shared.print_json(found)
        return
    for title, one in found.items():
        shared.console().print(
            f"{title}: {one['clusters']} clusters, silhouette {one['silhouette']:.2f}", style="bold"
        )
        rows = [
            [name, f"{row['reached']}", f"{row['share']:.0%}", f"{row['alone']}", row["more"]]
            for name, row in one["sets"].items()
        ]
        shared.print_table(["set", "clusters", "of all", "alone", ""], rows)


def benchmark(results: Path, metric: str, count: int, seed: int) -> Components:
    """Take the runs of a benchmark apart, by a metric.

    Raises `CharacteriseError` when it lacks the metric.
    """
    header, design, runs = read_runs(results)
    if not all(metric in one.metrics for one in runs):
        raise CharacteriseError(f"{results}: not every run has {metric}; choose other --metrics")
    measured = table(runs, design, int(header["experiment"]["repetitions"]), metric).mean(axis=1)
    if not np.isfinite(measured).all():
        raise CharacteriseError(f"{results}: {metric} is not measured in every run")
    columns = np.column_stack([design.signs[:, : len(design.names)], measured])
    return coverage.components(columns, len(design.names), count, seed)


def _benchmarks(chosen: argparse.Namespace, named: Mapping[str, Path]) -> dict[str, Any]:
    found, described = {}, {}
    for metric in chosen.metrics.split(","):
        parts = {
            name: benchmark(path / "runs.jsonl", metric, chosen.components, chosen.seed)
            for name, path in named.items()
        }
        found[metric] = coverage.clusters(
            {name: part.loadings[:, None] for name, part in parts.items()}, chosen.seed
        )
        more = {
            name: f"components alike in {part.stability.mean():.0%} of resampled runs"
            for name, part in parts.items()
        }
        described[metric] = _described(found[metric], more)
    write_figure(tree_figure(found), chosen.out / "components")
    return described


def _loads(chosen: argparse.Namespace, named: Mapping[str, Path]) -> dict[str, Any]:
    sets: dict[str, Points] = {name: _points(path) for name, path in named.items()}
    places: dict[str, Floats] = coverage.independent_loads(sets, chosen.seed)
    found = coverage.clusters(places, chosen.seed)
    write_figure(loads_figure(sets, found), chosen.out / "loads")
    more = {name: f"{len(points)} loads" for name, points in sets.items()}
    return {"loads": _described(found, more)}


def _points(path: Path) -> Points:
    read = samples.read(path)
    together = [load for group in read.groups for load in group]
    return np.vstack([read.single.points, points_of(together)])


def _described(found: Clusters, more: Mapping[str, str]) -> dict[str, Any]:
    return {
        "clusters": found.count,
        "silhouette": found.silhouette,
        "sets": {
            name: {
                "reached": len(found.reached(name)),
                "share": found.share(name),
                "alone": len(found.alone(name)),
                "more": more[name],
            }
            for name in dict.fromkeys(found.sets)
        },
    }
