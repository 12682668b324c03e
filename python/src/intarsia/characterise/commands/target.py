"""What commands that measure a real store have in common: how it is named and made slower."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from pathlib import Path

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment.target import Target, Throttle, opened
from intarsia.characterise.units import size_of

AT_ONCE = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what may be done to a store."""
    parser.add_argument(
        "--overwrite-device",
        action="store_true",
        help="let runs write to a block device, which destroys what is on it",
    )
    parser.add_argument(
        "--delay-ms",
        type=int,
        default=0,
        metavar="MS",
        help="throttle: add so many whole ms to each request, by nbdkit (for trying things out)",
    )
    parser.add_argument(
        "--rate", metavar="SIZE", help="throttle: bytes a second in each direction, such as 20MB"
    )
    parser.add_argument(
        "--at-once",
        type=int,
        metavar="N",
        help=f"throttle: requests that are served at the same time ({AT_ONCE})",
    )


def open_target(
    chosen: argparse.Namespace, path: Path, size_bytes: int
) -> AbstractContextManager[Target]:
    """Prepare what the command line names."""
    return opened(
        path,
        size_bytes=size_bytes,
        throttle=_throttle(chosen),
        overwrite=chosen.overwrite_device,
    )


def _throttle(chosen: argparse.Namespace) -> Throttle | None:
    if not (chosen.delay_ms or chosen.rate or chosen.at_once):
        return None
    rate = size_of(chosen.rate, "--rate") if chosen.rate else None
    at_once = AT_ONCE if chosen.at_once is None else chosen.at_once
    for name, value in (("--delay-ms", chosen.delay_ms), ("--at-once", at_once - 1)):
        if value < 0:
            raise CharacteriseError(f"{name}: it is too small")
    return Throttle(chosen.delay_ms, rate, at_once)
