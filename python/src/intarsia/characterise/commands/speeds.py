"""`speeds`: how fast each host is with a load, for `intarsia balance`."""

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
    """Requests a second that a host answers, when it always has the load's requests outstanding."""

    requests_per_s: float
    low: float
    high: float


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "speeds",
        "how fast each host is with a load, for `intarsia balance --speeds`",
        "Predict the requests a second that each host's store answers with a load, by its model. "
        "`intarsia balance --speeds` then spreads bytes over the hosts in proportion, so that "
        "requests which are spread over the bytes keep all hosts busy alike. Measure and fit the "
        "tier of each host that files go to.",
        "  python -m intarsia.characterise speeds node01=ssd.json node02=disk.json \\\n"
        "      --load 75,95,64k,4 --out speeds.toml\n"
        "  intarsia balance /mnt/work --speeds speeds.toml --dry-run\n",
    )
    parser.add_argument(
        "hosts", nargs="+", metavar="HOST=MODEL.json", help="as `intarsia status` names it; `fit`"
    )
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
    speeds = {
        host: _speed(host, shared.read_model(path), loads, chosen.confidence)
        for host, path in _hosts(chosen.hosts).items()
    }
    if chosen.out:
        write_atomically(chosen.out, as_toml(speeds, chosen.load).encode())
    if chosen.json:
        shared.print_json({host: asdict(speed) for host, speed in speeds.items()})
        return
    total = sum(speed.requests_per_s for speed in speeds.values())
    rows = [
        [host, f"{one.requests_per_s:.4g}", f"{one.low:.4g} to {one.high:.4g}",
         f"{one.requests_per_s / total:.0%}"]
        for host, one in speeds.items()
    ]  # fmt: skip
    shared.print_table(["host", "requests/s", f"{chosen.confidence:.0%} interval", "due"], rows)


def as_toml(speeds: dict[str, Speed], loads: Sequence[str]) -> str:
    """Return the file that `intarsia balance --speeds` reads, in requests a minute.

    >>> print(as_toml({"n1": Speed(20.4, 18.0, 23.0)}, ["75,95,64k,4"]), end="")
    # requests a minute, predicted for 75,95,64k,4
    [speeds]
    "n1" = 1224
    """
    rows = [
        f"{json.dumps(host)} = {max(1, round(60 * speed.requests_per_s))}"
        for host, speed in speeds.items()
    ]
    head = f"# requests a minute, predicted for {' and '.join(loads)}"
    return "\n".join([head, "[speeds]", *rows]) + "\n"


def _hosts(words: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for word in words:
        host, sign, path = word.partition("=")
        if not (host and sign and path):
            raise CharacteriseError(f"'{word}': write HOST=MODEL.json, such as node01=ssd.json")
        if host in found:
            raise CharacteriseError(f"host {host} is given twice")
        found[host] = Path(path)
    return found


def _speed(host: str, model: StoreModel, loads: Sequence[Load], confidence: float) -> Speed:
    try:
        model.require_inside(points_of(together(loads)))
    except OutsideError as error:
        raise OutsideError(f"host {host}: {error}") from None
    band = aggregate.shared_latency(model, loads, confidence)
    depth = sum(load.outstanding for load in loads)
    # By Little's law; the longest latency is the lowest speed.
    slow, usual, fast = (
        1000 * depth / float(one[0]) for one in (band.high_ms, band.mean_ms, band.low_ms)
    )
    return Speed(usual, slow, fast)
