"""What a store of ours calls its hosts, of which it chooses one by name for a group of files."""

from __future__ import annotations

import re
from pathlib import Path

from intarsia.locate import host_of
from intarsia.store import StoreError, call_json, find_binary, one

_WAIT_S = 20


def host_names(directory: Path) -> tuple[str, ...]:
    """Return the hosts of the store that `directory` is in, `n2` before `n10`; none of others."""
    try:
        if host_of(directory) is None:
            return ()
        asked = ["status", str(directory), "--this-host", "--json"]
        hosts = one(call_json(find_binary(), asked, _WAIT_S)).get("hosts", [])
    except (OSError, StoreError):
        # What is not known is left out: predictions go by the numbers of hosts then.
        return ()
    return tuple(sorted((str(host["host"]) for host in hosts), key=_in_order))


def _in_order(name: str) -> tuple[str, int, str]:
    """Sort by the number at the end.

    >>> sorted(["n10", "n2", "a"], key=_in_order)
    ['a', 'n2', 'n10']
    """
    number = re.search(r"\d*$", name)
    digits = number.group() if number else ""
    return name[: len(name) - len(digits)], int(digits or 0), name
