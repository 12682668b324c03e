"""Sizes as people write them."""

from __future__ import annotations

from intarsia.dedup.errors import DedupError
from intarsia.units import size_in_bytes


def parse_bytes(text: str) -> int:
    """Read a size such as 8192, 8KiB or 25 GB; raise `DedupError` for other units.

    >>> parse_bytes("8KiB"), parse_bytes("25 GB"), parse_bytes("8192")
    (8192, 25000000000, 8192)
    """
    try:
        return size_in_bytes(text)
    except ValueError as error:
        raise DedupError(str(error)) from None


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
