"""Where the tasks of a run are to run."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

# Nothing is sent there.
_ANY_PORT = 9


@dataclass(frozen=True)
class Place:
    """Where tasks run: `scheduler` is the address of one that runs already, with its workers.

    Else `hosts` get a worker each by `shell`, and connect to `address` of this host; without one,
    to that from which they are reached. Without a shell it is this host alone.
    """

    hosts: tuple[str, ...]
    shell: str | None = None
    address: str | None = None
    slots: int | None = None
    scheduler: str | None = None

    def listens_at(self) -> str | None:
        """The address at which the workers find this host; None if none is known."""
        if self.address is not None:
            return self.address
        if self.shell is None or set(self.hosts) == {socket.gethostname()}:
            return "127.0.0.1"
        return address_towards(self.hosts)


def address_towards(hosts: Iterable[str]) -> str | None:
    """Return the IPv4 address of this host from which one of `hosts` is reached, by their names.

    None where no name is known here, or all of them lead back to this host's loopback.

    >>> address_towards(["localhost", "no-such-host.invalid"])
    """
    for host in hosts:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((host, _ANY_PORT))
                here = str(probe.getsockname()[0])
        except OSError:
            continue
        if not ipaddress.ip_address(here).is_loopback:
            return here
    return None
