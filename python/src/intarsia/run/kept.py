"""What hosts keep of files that they have read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

from intarsia.locate import Located, Locations


class Kept:
    """The hosts that have read files whole, by path."""

    def __init__(self) -> None:
        self._hosts: dict[str, set[str]] = defaultdict(set)

    def read(self, paths: Iterable[str], host: str) -> list[str]:
        """Take note that a host has read files, and keeps them; returns those that are news."""
        news = [path for path in paths if host not in self._hosts[path]]
        for path in news:
            self._hosts[path].add(host)
        return news

    def forget(self, paths: Iterable[str], host: str | None = None) -> None:
        """Forget who has files that are made again, or all that a host has."""
        for path in paths:
            self._hosts.pop(path, None)
        for hosts in self._hosts.values():
            hosts.discard(host or "")

    def known(self, found: Locations, coming: Collection[str] = ()) -> Locations:
        """Return where files lie, with what hosts keep; `coming`: hosts that will have all."""
        return Locations(tuple(self._with_copies(file, coming) for file in found.files))

    def _with_copies(self, file: Located, coming: Collection[str]) -> Located:
        hosts = self._hosts.get(file.path, set()).union(coming)
        if not hosts or not file.bytes_by_host:
            return file
        held = dict(file.bytes_by_host) | dict.fromkeys(sorted(hosts), file.size_bytes)
        return replace(file, bytes_by_host=held)
