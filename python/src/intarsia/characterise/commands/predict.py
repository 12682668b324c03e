"""`predict`: the latency of loads on a store, with an interval."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from intarsia.characterise import aggregate
from intarsia.characterise import commands as shared
from intarsia.characterise.balance.predictor import together
from intarsia.characterise.load import points_of
from intarsia.characterise.units import load_from


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "predict",
        "predict the latency of loads on a store",
        "Predict the mean latency of a load, or of several that share the store, and an interval "
        "in which a measurement will lie. A load outside what was measured is refused, and an "
        "interval that is too wide to act on is said to be.",
        "  python -m intarsia.characterise predict fast.json --load 75,95,4k,2\n"
        "  python -m intarsia.characterise predict fast.json --load 75,95,4k,2 --load 0,98,64k,1\n",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.json", help="what `fit` wrote")
    parser.add_argument(
        "--load",
        action="append",
        required=True,
        metavar="RANDOM,READ,SIZE,OUTSTANDING",
        help="random %%, read %%, size of a request, outstanding requests; repeat it for several",
    )
    parser.add_argument("--confidence", type=shared.confidence, default=0.9, help="(0.9)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Predict and print."""
    model = shared.read_model(chosen.model)
    loads = [load_from(text) for text in chosen.load]
    model.require_inside(points_of(together(loads)))
    band = aggregate.shared_latency(model, loads, chosen.confidence)
    low, mean, high = (float(one[0]) for one in (band.low_ms, band.mean_ms, band.high_ms))
    depth = sum(load.outstanding for load in loads)
    rate = depth / mean * 1000
    is_wide = bool(band.is_wide()[0])
    if chosen.json:
        shared.print_json(
            {"mean_ms": mean, "low_ms": low, "high_ms": high, "confidence": chosen.confidence,
             "ms_per_outstanding": mean / depth, "requests_per_s": rate,
             "is_too_wide_to_act_on": is_wide}
        )  # fmt: skip
        return
    shared.console().print(
        f"{mean:.4g} ms ({low:.4g} to {high:.4g} ms with {chosen.confidence:.0%}), "
        f"{rate:.4g} requests/s"
    )
    if is_wide:
        shared.say(
            "too wide to act on: measure more loads like this one, or ask for less --confidence"
        )
