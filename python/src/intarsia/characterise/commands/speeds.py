"""`speeds`: how fast each host or tier is with a load, for `intarsia balance`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from intarsia.characterise import aggregate
from intarsia.characterise import commands as shared
from intarsia.characterise.balance.predictor import together
from intarsia.characterise.errors import CharacteriseError, OutsideError
from intarsia.characterise.load import Load, points_of
from intarsia.characterise.model.process import StoreModel
from intarsia.characterise.units import load_from
from intarsia.simulate.files import write_atomically


@dataclass(frozen=True)
class Speed:
    """Requests a second that a place answers, if it always has the load's requests outstanding."""

    requests_per_s: float
    low: float
    high: float


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "speeds",
        "how fast each host or tier is with a load, for `intarsia balance --speeds`",
        "Predict the requests a second that each host's store answers with a load, by its model; "
        "or each tier of one host. `intarsia balance --speeds` then spreads bytes over them in "
        "proportion, so that requests which are spread over the bytes keep all busy alike. Of a "
        "host, measure and fit the tier that files go to.",
        "  python -m intarsia.characterise speeds node01=ssd.json node02=disk.json \\\n"
        "      --load 75,95,64k,4 --out speeds.toml\n"
        "  intarsia balance /mnt/work --speeds speeds.toml --dry-run\n"
        "  python -m intarsia.characterise speeds /local/ssd=ssd.json /disk=disk.json --tiers \\\n"
        "      --load 75,95,64k,4 --out tiers.toml\n",
    )
    parser.add_argument(
        "places",
        nargs="+",
        metavar="HOST=MODEL.json",
        help="host or directory of a tier, as `intarsia status` names it; what `fit` wrote",
    )
    parser.add_argument("--tiers", action="store_true", help="they are tiers of one host")
    parser.add_argument(
        "--load",
        action="append",
        required=True,
        metavar="RANDOM,READ,SIZE,OUTSTANDING",
        help="what each host gets; repeat it for several loads that share it",
    )
    parser.add_argument("--confidence", type=shared.confidence, default=0.9, help="(0.9)")
    parser.add_argument("--out", type=Path, metavar="FILE.toml", help="for `intarsia balance`")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Predict, print and write."""
    loads = [load_from(text) for text in chosen.load]
    kind = "tier" if chosen.tiers else "host"
    speeds = {
        place: _speed(f"{kind} {place}", shared.read_model(path), loads, chosen.confidence)
        for place, path in _places(chosen.places, kind).items()
    }
    if chosen.out:
        table = "tiers" if chosen.tiers else "speeds"
        write_atomically(chosen.out, as_toml(speeds, chosen.load, table).encode())
    if chosen.json:
        shared.print_json({place: asdict(speed) for place, speed in speeds.items()})
        return
    total = sum(speed.requests_per_s for speed in speeds.values())
    rows = [
        [place, f"{one.requests_per_s:.4g}", f"{one.low:.4g} to {one.high:.4g}",
         f"{one.requests_per_s / total:.0%}"]
        for place, one in speeds.items()
    ]  # fmt: skip
    shared.print_table([kind, "requests/s", f"{chosen.confidence:.0%} interval", "due"], rows)


def as_toml(speeds: dict[str, Speed], loads: Sequence[str], table: str = "speeds") -> str:
    """Return the file that `intarsia balance --speeds` reads, in requests a minute.

    >>> print(as_toml({"n1": Speed(20.4, 18.0, 23.0)}, ["75,95,64k,4"]), end="")
    # requests a minute, predicted for 75,95,64k,4
    [speeds]
    "n1" = 1224
    """
    rows = [
        f"{json.dumps(place)} = {max(1, round(60 * speed.requests_per_s))}"
        for place, speed in speeds.items()
    ]
    head = f"# requests a minute, predicted for {' and '.join(loads)}"
    return "\n".join([head, f"[{table}]", *rows]) + "\n"


def _places(words: Sequence[str], kind: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for word in words:
        place, sign, path = word.rpartition("=")
        if not (place and sign and path):
            raise CharacteriseError(
                f"'{word}': write {kind.upper()}=MODEL.json, such as node01=ssd.json"
            )
        if kind == "tier" and not Path(place).is_absolute():
            raise CharacteriseError(
                f"'{word}': name a tier by its directory from / on, as `intarsia status` does"
            )
        if place in found:
            raise CharacteriseError(f"{kind} {place} is given twice")
        found[place] = Path(path)
    return found


def _speed(place: str, model: StoreModel, loads: Sequence[Load], confidence: float) -> Speed:
    try:
        model.require_inside(points_of(together(loads)))
    except OutsideError as error:
        raise OutsideError(f"{place}: {error}") from None
    band = aggregate.shared_latency(model, loads, confidence)
    depth = sum(load.outstanding for load in loads)
    # By Little's law; the longest latency is the lowest speed.
    slow, usual, fast = (
        1000 * depth / float(one[0]) for one in (band.high_ms, band.mean_ms, band.low_ms)
    )
    return Speed(usual, slow, fast)
