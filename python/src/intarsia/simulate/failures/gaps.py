"""Gaps between failures, bursts, and times of repair.

The rules, which every fit states:

- Gaps are taken between events in order of time: of a whole system, or of each node by itself.
- Records that follow each other in less than a minute are one event, which took several nodes: they
  go into the size of a burst, not into the distribution of gaps. An event begins with its first
  record.
- No other record is left out, and no gap is trimmed.
- *Censoring.* The gap that is open when the records end is longer than what was seen of it. For a
  system this is one gap among hundreds; for nodes it is one for each of them, the nodes that never
  failed included, and leaving them out makes nodes look several times worse than they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from intarsia.simulate.failures.records import RecordError

Hours = npt.NDArray[np.float64]

_HOURS_PER_SECOND = 1 / 3600
_ONE_EVENT_SECONDS = 60


@dataclass(frozen=True)
class Gaps:
    """Times between failures in hours, all above zero, and what was set apart."""

    what: str
    hours: Hours
    censored_hours: Hours = field(default_factory=lambda: np.empty(0))
    """Gaps that were still open when the records ended."""
    zeros: int = 0
    """Records that belong to the event before them, counted as bursts; repairs of no time."""
    note: str = ""

    @property
    def censoring(self) -> str:
        """How gaps that were open at the end are treated, in words."""
        if len(self.censored_hours) == 0:
            return "complete gaps only; the gap open at the end of the records is left out"
        return f"{len(self.censored_hours)} gaps open at the end of the records, right-censored"

    @property
    def mean_hours(self) -> float:
        """Time in service over the number of failures: the mean that needs no distribution."""
        return float((self.hours.sum() + self.censored_hours.sum()) / len(self.hours))

    def without_censored(self) -> Gaps:
        """Return the complete gaps alone."""
        return Gaps(self.what, self.hours, zeros=self.zeros, note=self.note)


def select_system(records: pd.DataFrame, system: str) -> pd.DataFrame:
    """Return the records of one system."""
    chosen = records[records["system"] == system]
    if chosen.empty:
        known = sorted(records["system"].unique(), key=lambda name: (len(name), name))
        raise RecordError(f"no records of system {system}; there are: {', '.join(known)}")
    return chosen


def system_gaps(records: pd.DataFrame, system: str | None = None) -> Gaps:
    """Return the gaps between any two failures of a system that follow each other.

    >>> from intarsia.simulate import failures
    >>> gaps = failures.system_gaps(failures.lanl(), "20")
    >>> len(gaps.hours), gaps.zeros
    (2400, 77)
    """
    chosen = records if system is None else select_system(records, system)
    hours = _between_events(chosen["started"])
    return Gaps(
        what=f"system {system}" if system else "all records",
        hours=_require(hours),
        zeros=len(chosen) - len(hours) - 1,
    )


def node_gaps(records: pd.DataFrame, system: str | None = None) -> Gaps:
    """Return the gaps of each node by itself, pooled, with the open gap of each node censored.

    A node counts as in service from the first record of its system to the last. Nodes without any
    record are known only where the records say how many nodes the system has.
    """
    chosen = records if system is None else select_system(records, system)
    if (chosen["node"] == "").all():
        raise RecordError("the records name no nodes: map the column with --column node=NAME")
    start, end = chosen["started"].min(), chosen["started"].max()
    complete, censored = [], []
    for _, times in chosen.groupby("node", sort=True)["started"]:
        complete.append(_between_events(times))
        censored.append((end - times.max()).total_seconds() * _HOURS_PER_SECOND)
    spared = max(int(chosen["nodes"].max()) - len(complete), 0)
    censored += [(end - start).total_seconds() * _HOURS_PER_SECOND] * spared
    hours, open_hours = np.concatenate(complete), np.array(censored)
    return Gaps(
        what=f"nodes of system {system}" if system else "nodes of all records",
        hours=_require(hours),
        censored_hours=open_hours[open_hours > 0],
        zeros=len(chosen) - len(hours) - len(complete),
        note=f"{len(complete)} nodes failed at least once, {spared} never",
    )


def burst_sizes(records: pd.DataFrame, system: str | None = None) -> dict[int, int]:
    """Count the events by the number of nodes that failed, each within a minute of the one before.

    Records that name no nodes count as one node each.

    >>> from intarsia.simulate import failures
    >>> failures.burst_sizes(failures.lanl(), "20")
    {1: 2339, 2: 54, 3: 6, 4: 1, 5: 1}
    """
    chosen = records if system is None else select_system(records, system)
    chosen = chosen.sort_values("started", kind="stable")
    of_event = chosen["node"].groupby(_events(chosen["started"]).cumsum())
    has_nodes = (chosen["node"] != "").all()
    together = of_event.nunique() if has_nodes else of_event.size()
    sizes = together.value_counts().sort_index()
    return {int(size): int(events) for size, events in sizes.items()}


def repair_hours(records: pd.DataFrame, system: str | None = None) -> Gaps:
    """Return the times from failure to repair, from the two time stamps of a record.

    Repairs of zero minutes, which a logarithm cannot take, are counted apart.
    """
    chosen = records if system is None else select_system(records, system)
    known = chosen.dropna(subset=["repaired"])
    if known.empty:
        raise RecordError("the records hold no repairs: map the column with --column repaired=NAME")
    hours = (known["repaired"] - known["started"]).dt.total_seconds().to_numpy() * _HOURS_PER_SECOND
    return Gaps(
        what=f"repairs of system {system}" if system else "repairs of all records",
        hours=_require(hours[hours > 0]),
        zeros=int((hours == 0).sum()),
        note=f"{len(chosen) - len(known)} records without a repair",
    )


def _between_events(times: pd.Series) -> Hours:
    ordered = np.sort(times.to_numpy())
    begins = ordered[_events(ordered)]
    seconds = np.diff(begins) / np.timedelta64(1, "s")
    return np.asarray(seconds * _HOURS_PER_SECOND, dtype=np.float64)


def _events(ordered: Any) -> npt.NDArray[np.bool_]:
    """Return for each of some times in order whether an event begins with it."""
    seconds = np.diff(np.asarray(ordered)) / np.timedelta64(1, "s")
    return np.concatenate([[True], seconds >= _ONE_EVENT_SECONDS])


def _require(hours: Hours) -> Hours:
    if len(hours) < 3:
        raise RecordError(
            f"{len(hours)} gaps above zero are too few for a fit; at least 3 are needed"
        )
    if hours.min() == hours.max():
        raise RecordError(f"all {len(hours)} gaps are {hours[0]:g} h: there is nothing to fit")
    return hours
