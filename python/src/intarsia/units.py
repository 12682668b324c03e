"""Rates and sizes as people write and read them."""

from __future__ import annotations

import re

from intarsia.schedule.host import LINK_BYTES_PER_S

_UNITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_RATE = re.compile(r"(?P<number>\d+(\.\d+)?) ?(?P<unit>[a-z]+)", re.IGNORECASE)

_SIZES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?) ?(?P<unit>[A-Za-z]*)")


def payload_rate(text: str) -> float:
    """Return the bytes of files that a link carries in a second: its rate less headers.

    Raises ValueError for what is no rate.

    >>> round(payload_rate("1gbit")), round(payload_rate("200 Mbit"))
    (119000000, 23800000)
    """
    match = _RATE.fullmatch(text.strip().removesuffix("/s"))
    unit = _UNITS.get(match["unit"].lower()) if match else None
    if match is None or unit is None or not float(match["number"]):
        raise ValueError(f"{text!r} is no rate of a link; write one as in 200mbit or 10gbit")
    return float(match["number"]) * unit / 1e9 * LINK_BYTES_PER_S


def size_in_bytes(text: str) -> int:
    """Return a size in bytes; raises ValueError for what is none.

    >>> size_in_bytes("8192"), size_in_bytes("1.5 GB"), size_in_bytes("4KiB")
    (8192, 1500000000, 4096)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"`{text}` is no size: write a number of bytes, or one as in 8KiB or 20GB")
    unit = _SIZES.get(match["unit"])
    if unit is None:
        units = ", ".join(filter(None, _SIZES))
        raise ValueError(f"`{text}`: there is no unit {match['unit']}; use {units}")
    return round(float(match["number"]) * unit)


def bytes_text(size_bytes: float) -> str:
    """Write a size for a person, with three digits.

    >>> bytes_text(33), bytes_text(1_288_895), bytes_text(999_999), bytes_text(2.5e12)
    ('33 B', '1.29 MB', '1 MB', '2,500 GB')
    """
    size, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if float(f"{size:.3g}") < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:,.0f} {unit}"
