"""What the user of `intarsia run` chose."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from intarsia.engines.shell import shell_of
from intarsia.run.ahead import Budget
from intarsia.run.glide import Glide
from intarsia.run.place import Place
from intarsia.run.replay import Replay
from intarsia.run.told import Told
from intarsia.schedule import Policy, blind, delayed, least_cost
from intarsia.schedule.host import LINK_BYTES_PER_S

SCHEDULES = ("local", "workqueue", "wow")


@dataclass(frozen=True)
class Choices:
    """What the user chose; times in seconds."""

    workflow: Path
    directory: Path | None
    run_dir: Path | None
    hosts: tuple[str, ...]
    shell: str | None
    address: str | None
    slots: int | None
    scheduler: str | None
    up: Path | None
    up_options: Sequence[str]
    stage_in: Sequence[str]
    stage_out: Path | None
    discards: bool
    schedule: str | None
    patience_s: float | None
    in_order: bool
    ahead_bytes: int
    ahead_space: int | None
    ahead_link: float | None
    hints: str | None
    learn: Sequence[Path]
    link_bytes_per_s: float | None
    mtbf_h: float
    live: str | None
    retries: int
    timeout_s: float | None
    keeps_going: bool
    remakes: bool
    fresh: bool
    dry_run: bool
    scale: float
    time_scale: float
    burns: bool
    json: bool
    record: Path | None
    trace: Path | None
    report: Path | None
    quiet: bool
    advice: Path | None = None
    refine: Path | None = None

    @property
    def replay(self) -> Replay:
        """How an instance of WfFormat is replayed."""
        return Replay(self.scale, self.time_scale, self.burns)

    @property
    def place(self) -> Place:
        """Where tasks run."""
        shell = (self.shell or shell_of(os.environ)) if self.hosts else None
        hosts = self.hosts or (socket.gethostname(),)
        return Place(hosts, shell, self.address, self.slots, self.scheduler)

    @property
    def told(self) -> Told:
        """Files in which the run is told."""
        return Told(self.record, self.trace, self.report)

    @property
    def root(self) -> Path:
        """Where the files of the workflow lie."""
        return (self.directory or self.up or Path()).absolute()

    @property
    def glide(self) -> Glide | None:
        """The store that is brought up for the run."""
        if self.up is None:
            return None
        return Glide(self.up.absolute(), self.hosts, tuple(self.up_options), self.discards)

    @property
    def link(self) -> float:
        """Bytes that a host's link carries in a second."""
        return self.link_bytes_per_s or LINK_BYTES_PER_S

    @property
    def budget(self) -> Budget:
        """What copies ahead may take."""
        return Budget(self.ahead_bytes, self.ahead_space, self.ahead_link)

    @property
    def by_affinity(self) -> bool:
        """Whether tasks run where what is read beside their outputs is."""
        is_local = (self.schedule or "local") == "local"
        return is_local and not self.in_order and self.patience_s is None

    @property
    def policy(self) -> Policy:
        """How hosts are chosen."""
        if self.schedule == "workqueue":
            return blind
        if self.patience_s is None:
            return least_cost
        return partial(delayed, patience_s=self.patience_s)
