"""Sizes as people write them."""

from __future__ import annotations

import re

from intarsia.dedup.errors import DedupError

_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?) ?(?P<unit>[A-Za-z]*)")


def parse_bytes(text: str) -> int:
    """Read a size such as 8192, 8KiB or 25 GB; raise `DedupError` for other units.

    >>> parse_bytes("8KiB"), parse_bytes("25 GB"), parse_bytes("8192")
    (8192, 25000000000, 8192)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise DedupError(f"`{text}` is no size: write a number of bytes, or one as in 8KiB")
    unit = _UNITS.get(match["unit"])
    if unit is None:
        raise DedupError(
            f"`{text}`: there is no unit {match['unit']}; use {', '.join(filter(None, _UNITS))}"
        )
    return round(float(match["number"]) * unit)


def show_bytes(count: float) -> str:
    """Write a size for a person.

    >>> show_bytes(512), show_bytes(13_000), show_bytes(5 * 2**30)
    ('512 B', '12.7 KiB', '5 GiB')
    """
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:,.0f} {unit}"
