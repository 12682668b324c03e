"""Failure records as the simulator replays them: at their times, on their nodes."""

from __future__ import annotations

import pandas as pd

from intarsia.simulate.failures.records import RecordError


def replay_csv(records: pd.DataFrame) -> str:
    """Return the records of one system as the file that `replay` of `[failures]` names.

    Times count from the first record. Nodes keep their numbers where all of them have one, and are
    otherwise numbered in the order of their names.

    >>> from intarsia.simulate import failures
    >>> records = failures.select_system(failures.lanl(), "20")
    >>> failures.replay_csv(records).splitlines()[:3]
    ['seconds,node,repair_seconds', '0,194,537300', '228900,251,10380']
    """
    if (records["node"] == "").any():
        raise RecordError("a replay needs the nodes: map the column with --column node=NAME")
    ordered = records.sort_values("started", kind="stable")
    seconds = (ordered["started"] - ordered["started"].iloc[0]).dt.total_seconds()
    repairs = (ordered["repaired"] - ordered["started"]).dt.total_seconds()
    nodes = _numbers(ordered["node"])
    lines = [
        f"{_shown(at)},{node},{_shown(repair)}"
        for at, node, repair in zip(seconds, nodes, repairs, strict=True)
    ]
    return "\n".join(["seconds,node,repair_seconds", *lines]) + "\n"


def _numbers(names: pd.Series) -> pd.Series:
    if names.str.fullmatch(r"\d{1,9}").all():
        return names.astype(int)
    return names.map({name: number for number, name in enumerate(sorted(names.unique()))})


def _shown(seconds: float) -> str:
    return "" if pd.isna(seconds) else f"{seconds:.10g}"
