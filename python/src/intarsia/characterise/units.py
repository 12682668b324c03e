"""Sizes, times and loads as people write them."""

from __future__ import annotations

import math
import re

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.load import Load

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([kmgtp]?)(i?)(b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def size_of(text: str | float, what: str = "size") -> float:
    """Read a size in bytes: 4k and 4 KiB are 4096, 120 GB is 120,000,000,000.

    Raises `CharacteriseError` that names `what`.

    >>> size_of("4k"), size_of("64 KiB"), size_of("120 GB"), size_of(512)
    (4096.0, 65536.0, 120000000000.0, 512.0)
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    match = _SIZE.fullmatch(str(text).strip())
    if match is None:
        raise CharacteriseError(f"{what}: '{text}' is no size; write one such as 4k or 120 GB")
    number, prefix, binary, byte = match.groups()
    is_decimal = bool(byte) and not binary and bool(prefix)
    return float(number) * float(1000 if is_decimal else 1024) ** _POWERS[prefix.lower()]


def load_from(text: str) -> Load:
    """Read a load: random %, read %, size of a request, outstanding requests, with commas.

    >>> load_from("75,95,4k,2")
    Load(random=75.0, read=95.0, bytes=4096.0, outstanding=2.0)
    """
    words = [word.strip().removesuffix("%") for word in text.split(",")]
    if len(words) != 4:
        raise CharacteriseError(
            f"load '{text}': write random %, read %, size, outstanding, such as 75,95,4k,2"
        )
    try:
        return Load(float(words[0]), float(words[1]), size_of(words[2]), float(words[3]))
    except ValueError as error:
        raise CharacteriseError(f"load '{text}': {error}") from None


def size_text(value: float) -> str:
    """Write bytes as people say them.

    >>> size_text(8192), size_text(120e9)
    ('8 KiB', '112 GiB')
    """
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            return f"{value / 1024**power:.3g} {unit}"
    return f"{value:.0f} B"


def duration_text(seconds: float) -> str:
    """Write a time as people say it.

    >>> duration_text(90), duration_text(7200), duration_text(float("inf"))
    ('1.5 min', '2 h', 'never')
    """
    if not math.isfinite(seconds):
        return "never"
    for length, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
