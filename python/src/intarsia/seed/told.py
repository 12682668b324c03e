"""What a profile says that no time tells: by the command line, the kernel, or what is known."""

from __future__ import annotations

from typing import Any

#: How each place is known, where it is in a profile.
_BY_KERNEL = {
    "host.cache_bytes": "memory that the kernel says is available",
    "unlike_hosts": "slots and cache_bytes: processors and memory, as the kernel there says",
    "shared_processors": "processors of this host: the kernel of the others is the same one",
    "tiers.0.capacity_bytes": "free space, as the kernel says",
    "tiers.0.write_back.bytes": "settings of the kernel for bytes that are not written yet",
}
_BY_CLIENT = {
    "network.sharing": "streams share links as those of TCP do",
    "client.outstanding_chunks": "how many chunks clients of Intarsia ask for ahead",
    "client.local_access": "clients of Intarsia reach their own host without messages",
    "client.opens_parts": "clients of Intarsia do so",
    "client.inline_bytes": "`inline_limit` of Intarsia, if nobody changed it",
    "client.sums_written": "clients of Intarsia do so",
    "client.striped_window_bytes": "what a program asks for in one call, taken to be 1 MiB",
}
_DEALT = "of files that user.intarsia.place=stripe:2 and user.intarsia.chunk=64KiB dealt"


def told(profile: dict[str, Any], asked: dict[str, str]) -> dict[str, str]:
    """Return how each place of a profile is known that was not measured.

    `asked` has those that depend on the command line.
    """
    places = asked | _BY_KERNEL | _BY_CLIENT
    if "opens_parts" in profile["client"]:
        places["client.keeps_striped"] = _DEALT
    return {place: how for place, how in places.items() if _has(profile, place)}


def _has(profile: dict[str, Any], place: str) -> bool:
    """Whether a place is there and holds anything but the number 0."""
    within: Any = profile
    for name in place.split("."):
        within = within[int(name)] if name.isdecimal() else within.get(name, 0)
        if within == 0 and within is not False:
            return False
    return True
