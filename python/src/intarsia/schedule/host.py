"""A host that runs tasks."""

from __future__ import annotations

from dataclasses import dataclass

# 1 Gbit/s less headers, the least that hosts of a cluster have.
LINK_BYTES_PER_S = 119e6


@dataclass(frozen=True, slots=True)
class Host:
    """A host, under the name that the store calls it by.

    `free_slots`: how many tasks it could begin now. `wait_s`: how long a task that is sent there
    waits before it begins, as far as is known; 0 with a free slot. `link_bytes_per_s`: the rate
    at which it reads what lies on other hosts.
    """

    name: str
    free_slots: int = 1
    wait_s: float = 0.0
    link_bytes_per_s: float = LINK_BYTES_PER_S

    def __post_init__(self) -> None:
        if self.link_bytes_per_s <= 0:
            raise ValueError(f"host {self.name}: link_bytes_per_s must be above 0")
