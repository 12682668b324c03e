"""A task that is to be placed, and the form of a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from intarsia.locate import Locations
from intarsia.schedule.host import Host


@dataclass(frozen=True, slots=True)
class Task:
    """What a policy knows of a task.

    `input_bytes`: bytes that it reads from disks. `bytes_by_host`: how many of these each host
    has on a disk of its own. `slots`: how many slots it takes. `waited_s`: how long it has been
    ready. `affinity_by_host`: bytes that later tasks need not move if it runs on this host, because
    they read what it makes together with what is there.
    """

    bytes_by_host: Mapping[str, int] = field(default_factory=dict)
    input_bytes: int = 0
    slots: int = 1
    waited_s: float = 0.0
    affinity_by_host: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def reading(cls, inputs: Locations, *, slots: int = 1) -> Task:
        """A task that reads these files whole."""
        return cls(inputs.bytes_by_host, inputs.size_bytes, slots)

    @property
    def nearest(self) -> str | None:
        """The host that has most of its input, if any has."""
        return max(self.bytes_by_host, key=self.local_bytes, default=None)

    def local_bytes(self, host: str) -> int:
        """Bytes of its input that `host` reads from its own disk."""
        return self.bytes_by_host.get(host, 0)

    def remote_bytes(self, host: str) -> int:
        """Bytes of its input that `host` reads from other hosts."""
        return max(0, self.input_bytes - self.local_bytes(host))

    @property
    def affinity_bytes(self) -> int:
        """What later tasks have to move at most."""
        return sum(self.affinity_by_host.values())

    def near_bytes(self, host: str) -> int:
        """Bytes that neither it nor later tasks have to move if it runs on `host`."""
        return self.local_bytes(host) + self.affinity_by_host.get(host, 0)

    def far_bytes(self, host: str) -> int:
        """Bytes that it or later tasks have to move if it runs on `host`."""
        missed = self.affinity_bytes - self.affinity_by_host.get(host, 0)
        return self.remote_bytes(host) + missed


#: Chooses a host with enough free slots, or None: the task waits.
Policy = Callable[[Task, Sequence[Host]], Host | None]


def with_room(task: Task, hosts: Sequence[Host]) -> list[Host]:
    """Return the hosts that could begin the task now."""
    return [host for host in hosts if host.free_slots >= task.slots]
