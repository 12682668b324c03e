"""Names of hosts as batch systems write them: `node[01-03,7],login`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ITEM = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_LIMIT = 100_000


def hosts_in(text: str) -> tuple[str, ...]:
    """Return the hosts that `text` names; raises ValueError for what is no such expression.

    >>> hosts_in("node[01-03,7],login"), hosts_in("r[1-2]n[1-2]")
    (('node01', 'node02', 'node03', 'node7', 'login'), ('r1n1', 'r1n2', 'r2n1', 'r2n2'))
    """
    if not text:
        return ()
    items = _split(text)
    names = tuple(name for item in items for name in _expanded(item))
    if len(set(names)) < len(names):
        raise ValueError(f"{text!r}: a host is named twice")
    return names


def _split(text: str) -> list[str]:
    items = []
    at = 0
    while at <= len(text):
        found = _ITEM.match(text, at)
        if found is None or not found.group():
            raise ValueError(f"{text!r}: names are expected, as in node[01-08],login")
        items.append(found.group())
        at = found.end() + 1
        if at <= len(text) and text[at - 1] != ",":
            raise ValueError(f"{text!r}: a bracket is not closed, or none was opened")
    return items


def _expanded(item: str) -> Iterator[str]:
    head, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    numbers, _, tail = rest.partition("]")
    for part in numbers.split(","):
        for number in _numbers(item, part):
            yield from (f"{head}{number}{end}" for end in _expanded(tail))


def _numbers(item: str, part: str) -> Iterator[str]:
    found = _RANGE.fullmatch(part)
    if found is None:
        raise ValueError(f"{item!r}: {part!r} is no number and no range, such as 01-08")
    first, last = found[1], found[2] or found[1]
    if not 0 <= int(last) - int(first) < _LIMIT:
        raise ValueError(f"{item!r}: {part!r} is no range from a lower to a higher number")
    yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
