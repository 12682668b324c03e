"""`stores`: the simulated stores that come with the package."""

from __future__ import annotations

import argparse
import json
from typing import Any

from intarsia.characterise import commands as shared
from intarsia.characterise import published, stores
from intarsia.characterise.load import load_of
from intarsia.characterise.units import size_text

_SHOWN = ("web-file-4k", "oltp", "media", "sql-log", "vod")


def add_parser(commands: Any) -> None:
    """Describe the command line."""
    parser = shared.add(
        commands,
        "stores",
        "simulated stores, and what usual loads see on them",
        "Simulate usual loads, two requests outstanding, on the stores that come with the package: "
        "arrays of disks that seek, with parity and caches; flash with garbage collection; a "
        "network "
        "volume with limits. The truth of a simulated store is known, so models can be judged "
        "by it.",
        "  python -m intarsia.characterise stores\n"
        "  python -m intarsia.characterise stores --json | jq .ssd      the settings of one\n",
    )
    parser.add_argument("--json", action="store_true", help="print the settings of all as JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> None:
    """Print the stores."""
    if chosen.json:
        print(json.dumps(stores.presets(), indent=2))
        return
    loads = [published.load(name, 2) for name in _SHOWN]
    cases = [(settings, [load]) for settings in stores.presets().values() for load in loads]
    found = iter(stores.measure(cases, requests=400, warmup=300))
    rows = [
        [name, _shape(settings), *(f"{next(found).mean_ms:.3g}" for _ in loads)]
        for name, settings in stores.presets().items()
    ]
    shared.print_table(["store", "what", *(f"{name}, ms" for name in _SHOWN)], rows, left=2)
    described = ", ".join(
        f"{name} {size_text(one.bytes)} {one.read:g} % read {one.random:g} % random"
        for name in _SHOWN
        for one in [load_of(published.load(name, 2).row)]
    )
    shared.console().print(f"mean latency with 2 outstanding; {described}", style="dim")


def _shape(settings: stores.Settings) -> str:
    if settings["kind"] == "array":
        disks = settings["disks"]
        return (
            f"{disks} disk{'s' * (disks > 1)}, {settings['disk']['rpm']} rpm, {settings['level']}"
        )
    if settings["kind"] == "flash":
        return f"flash, {settings['dies']} dies"
    return f"network, {settings['iops']} requests/s"
