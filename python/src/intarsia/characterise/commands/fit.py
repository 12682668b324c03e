"""`fit`: a store's model from its samples."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.characterise import aggregate, samples
from intarsia.characterise import commands as shared
from intarsia.characterise.load import BYTES, OUTSTANDING
from intarsia.characterise.model import linear, process
from intarsia.characterise.units import size_text
from intarsia.simulate.files import write_atomically


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "fit",
        "fit the model of a store to its samples",
        "Fit a Gaussian process to the logarithm of the latency. Its intervals come from loads "
        "that "
        "were left out (conformal), so they cover what they say. Groups that were measured "
        "together "
        "choose the rule by which loads on one store are merged, and calibrate it.",
        "  python -m intarsia.characterise fit fast.csv --out fast.json\n",
    )
    parser.add_argument("samples", type=Path, metavar="SAMPLES.csv", help="what `measure` wrote")
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL.json", help="the model")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Fit, write and tell."""
    measured = samples.read(chosen.samples)
    model = process.fit(measured.single)
    if measured.groups:
        model = aggregate.calibrated(model, measured.groups, measured.group_latency_ms)
    write_atomically(chosen.out, json.dumps(model.as_json()).encode())
    found = _summary(model, measured)
    if chosen.json:
        shared.print_json(found)
        return
    out = shared.console()
    sizes, depths = found["bytes"], found["outstanding"]
    out.print(f"{chosen.out}: model of {found['samples']} loads and {found['groups']} groups")
    out.print(f"  region            {size_text(sizes[0])} to {size_text(sizes[1])}, "
              f"{depths[0]:g} to {depths[1]:g} outstanding, all shares")  # fmt: skip
    out.print(f"  error, left out   {found['left_out_error']:.1%} (median)")
    out.print(f"  90 % interval     {found['interval_90']:.0%} of the prediction wide (median)")
    if measured.groups:
        out.print(f"  several together  rule {found['rule']}, {found['group_error']:.1%} error, "
                  f"correction {found['group_correction']:+.1%}")  # fmt: skip
    out.print(f"  published terms   {' '.join(found['published_terms'])}")


def _summary(model: process.StoreModel, measured: samples.Measurements) -> dict[str, Any]:
    points = measured.single.points
    band = model.interval(points, 0.9)
    _, deviation = model.logarithm(points)
    return {
        "samples": len(measured.single),
        "groups": len(measured.groups),
        "bytes": [float(points[:, BYTES].min()), float(points[:, BYTES].max())],
        "outstanding": [float(points[:, OUTSTANDING].min()), float(points[:, OUTSTANDING].max())],
        "left_out_error": float(np.median(np.abs(model.scores.values)) * np.median(deviation)),
        "interval_90": float(np.median((band.high_ms - band.low_ms) / band.mean_ms)),
        "rule": model.mixed_rule,
        "group_error": _group_error(model, measured),
        "group_correction": float(np.expm1(model.mixed_shift)),
        "published_terms": list(linear.fit_published(measured.single).terms),
    }


def _group_error(model: process.StoreModel, measured: samples.Measurements) -> float | None:
    if not measured.groups:
        return None
    guessed = [aggregate.shared_latency(model, one, 0.5).mean_ms[0] for one in measured.groups]
    return float(np.median(np.abs(np.array(guessed) / measured.group_latency_ms - 1)))
