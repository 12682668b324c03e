"""Claims on the knobs of benchmarks, from runs of `screen` on a real directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import coverage
from intarsia.characterise.experiment.coverage import Clusters
from intarsia.characterise.experiment.driver import read_runs, table
from intarsia.characterise.experiment.effects import Effect, important, main_effects
from intarsia.simulate.report.claims import Claim, Verdict

MOST = {"fio": 5, "postmark": 4}
"""Published: so many knobs at most are behind half of all effects."""
COMPONENTS = 8
COMMON = ("read_throughput", "write_throughput")
_MACHINE = "Measured on another machine and file system than the published ones, at smaller levels."
_OPEN = "Give --fio and --postmark: what `screen` wrote."
_SAME, _ACCESS = "threads_same", "access_pattern"


def effects_of(results: Path) -> dict[str, list[Effect]]:
    """Return the effects on each metric that every run has."""
    header, design, runs = read_runs(results)
    repetitions = int(header["experiment"]["repetitions"])
    wanted = header["experiment"]["metrics"] or list(runs[0].metrics)
    measured = {name: table(runs, design, repetitions, name) for name in wanted}
    whole = {name: one for name, one in measured.items() if np.isfinite(one).all()}
    if not whole:
        raise CharacteriseError(
            f"{results}: runs of the design are missing; the same `screen` command makes them"
        )
    return {name: main_effects(design, one) for name, one in whole.items()}


def important_frame(results: Path) -> pd.DataFrame:
    """Return the knobs behind half of all effects, a row for each metric."""
    return pd.DataFrame(
        [
            {
                "metric": metric,
                "knobs behind half of all effects": ", ".join(one.name for one in chosen),
                "number": len(chosen),
                "share": sum(one.share for one in chosen),
                "clear (95 %)": ", ".join(one.name for one in chosen if one.is_clear) or "none",
            }
            for metric, found in effects_of(results).items()
            if (chosen := important(found))
        ]
    )


def clusters_of(screens: Mapping[str, Path], seed: int = 1) -> dict[str, Clusters]:
    """Return the clusters of the components of all benchmarks, by metric."""
    found = {}
    for metric in COMMON:
        loadings = {}
        for name, results in screens.items():
            header, design, runs = read_runs(results)
            repetitions = int(header["experiment"]["repetitions"])
            measured = table(runs, design, repetitions, metric).mean(axis=1)
            columns = np.column_stack([design.signs[:, : len(design.names)], measured])
            part = coverage.components(columns, len(design.names), COMPONENTS, seed)
            loadings[name] = part.loadings[:, None]
        found[metric] = coverage.clusters(loadings, seed)
    return found


def claims_of_screens(screens: Mapping[str, Path]) -> list[Claim]:
    """Judge R6, R7 and R9; open where there are no runs."""
    return [
        *(_r6(name, screens.get(name)) for name in MOST),
        _r7(screens.get("fio")),
        _r9(screens if len(screens) == len(MOST) else None),
    ]


def _r6(name: str, results: Path | None) -> Claim:
    published = (
        f"{name}: at most {MOST[name]} knobs are behind half of all effects, for each metric"
    )
    if results is None:
        return Claim(f"R6 {name}", published, "–", Verdict.OPEN, "–", _OPEN)
    rows = important_frame(results)
    text = "; ".join(
        f"{row['metric']} {row['number']} ({row['share']:.0%})" for _, row in rows.iterrows()
    )
    return Claim(
        f"R6 {name}",
        published,
        text,
        Verdict.of(bool((rows["number"] <= MOST[name]).all())),
        "the number",
        _MACHINE,
    )


def _r7(results: Path | None) -> Claim:
    published = (
        "fio: read and write latency have the same knobs behind half of all effects; threads_same "
        "is among those of all four metrics, access_pattern among those of both throughputs"
    )
    if results is None:
        return Claim("R7", published, "–", Verdict.OPEN, "–", _OPEN)
    chosen = {
        metric: [one.name for one in important(found)]
        for metric, found in effects_of(results).items()
    }
    return Claim(
        "R7",
        published,
        "; ".join(f"{metric}: {', '.join(names)}" for metric, names in chosen.items()),
        Verdict.of(_has_shape(chosen)),
        "all three statements",
        _MACHINE + " No disk seeks here.",
    )


def _has_shape(chosen: Mapping[str, Sequence[str]]) -> bool:
    latencies = [set(chosen.get(f"{side}_latency", ())) for side in ("read", "write")]
    throughputs = [chosen.get(f"{side}_throughput", ()) for side in ("read", "write")]
    return (
        latencies[0] == latencies[1] != set()
        and all(_SAME in names for names in chosen.values())
        and all(_ACCESS in names for names in throughputs)
    )


def _r9(screens: Mapping[str, Path] | None) -> Claim:
    published = (
        "Read throughput: both tools cover about the same; write throughput: each has a component "
        "of its own"
    )
    if screens is None:
        return Claim("R9", published, "–", Verdict.OPEN, "–", _OPEN)
    found = clusters_of(screens)
    read, write = (found[metric] for metric in COMMON)
    text = "; ".join(
        f"{metric}: {one.count} clusters, "
        + ", ".join(f"{name} reaches {len(one.reached(name))}, {len(one.alone(name))} alone"
                    for name in screens)
        for metric, one in found.items()
    )  # fmt: skip
    alike = not any(read.alone(name) for name in screens)
    unlike = all(write.alone(name) for name in screens)
    return Claim(
        "R9",
        published,
        text,
        Verdict.of(alike and unlike),
        "no cluster of one tool alone for reads; one of each for writes",
        _MACHINE + f" {COMPONENTS} components from few runs are not stable.",
    )
