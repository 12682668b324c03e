"""`check`: whether a store still is as its model says."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intarsia.characterise import commands as shared
from intarsia.characterise import samples
from intarsia.characterise.model.check import Check, check, recalibrated
from intarsia.simulate.files import write_atomically


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "check",
        "hold a model against fresh measurements, and calibrate it anew",
        "Predict loads that were measured later than those of the model, and say how many lie "
        "inside its intervals, whether the store became slower or faster, and whether it scatters "
        "more. With --out the model takes over shift and scatter of the fresh loads; when the "
        "store has changed much, `measure` and `fit` anew.",
        "  python -m intarsia.characterise measure /mnt/store --points 40 --groups 0 --seed 2 \\\n"
        "    --out fresh.csv\n"
        "  python -m intarsia.characterise check mine.json fresh.csv --out mine.json\n",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.json", help="what `fit` wrote")
    parser.add_argument("samples", type=Path, metavar="FRESH.csv", help="what `measure` wrote")
    parser.add_argument("--out", type=Path, metavar="MODEL.json", help="the model, calibrated anew")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Check, tell, and write."""
    model = shared.read_model(chosen.model)
    fresh = samples.read(chosen.samples).single
    found = check(model, fresh)
    if chosen.out is not None:
        made = json.dumps(recalibrated(model, fresh).as_json())
        write_atomically(chosen.out, made.encode())
    if chosen.json:
        verdicts = {"is_shifted": found.is_shifted, "is_wider": found.is_wider}
        shared.print_json({**asdict(found), **verdicts})
        return
    _print(found, chosen.out)


def _print(found: Check, out: Path | None) -> None:
    console = shared.console()
    console.print(
        f"{found.loads} fresh loads: {found.inside_90:.0%} inside the 90 % interval (95 % sure: "
        f"{found.inside_90_low:.0%} to {found.inside_90_high:.0%}), {found.inside_95:.0%} inside "
        f"the 95 % interval"
    )
    pace = "slower" if found.slower > 0 else "faster"
    changes = [f"{abs(found.slower):.1%} {pace} than its model says"] if found.is_shifted else []
    changes += ["less steady than its model says"] if found.is_wider else []
    told = " and ".join(changes) or f"as its model says ({found.slower:+.1%} in the median)"
    console.print(f"the store is {told}")
    if out is not None:
        console.print(f"{out}: calibrated anew by {found.loads} loads")
    elif changes:
        console.print("give --out to calibrate the model anew, or `measure` and `fit`")
