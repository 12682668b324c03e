"""What the published study of checkpointing says, held against the simulation."""

from __future__ import annotations

from typing import Any

import pandas as pd

from intarsia.simulate.report.claims import Claim, Verdict

STORAGE = {
    "none": "no checkpoints",
    "pfs": "central file system",
    "dfs": "node-local storage",
}

MACHINE_MTBF = "machine MTBF"
"""The part of the study whose intervals follow from the MTBF of the whole machine."""

_MI = 2**20
MACHINE_MTBF_POINTS = (("pfs", _MI), ("dfs", 2 * _MI))
"""Storage and nodes of that part."""


def claims_of(frame: pd.DataFrame) -> list[Claim]:
    """Judge each published statement by a finished study."""
    none_400k = at(frame, "full", "none", 409_600)
    pfs, dfs = at(frame, "full", "pfs", _MI), at(frame, "full", "dfs", _MI)
    cycle = pfs["derived.checkpoint_time_pfs"] + pfs["derived.checkpoint_interval"]
    tenth_pfs, tenth_dfs = at(frame, "tenth", "pfs", _MI), _worst(frame, "tenth", "dfs")
    day = {storage: at(frame, "day", storage, _MI) for storage in STORAGE}
    short = {storage: at(frame, "short", storage, _MI) for storage in STORAGE}
    short_dfs = _worst(frame, "short", "dfs")
    overhead = short_dfs["checkpoint_share"]
    with_machine = {
        (storage, nodes): at(frame, "tenth", storage, nodes, MACHINE_MTBF)
        for storage, nodes in MACHINE_MTBF_POINTS
    }
    machine_pfs, machine_dfs = with_machine.values()
    return [
        Claim(
            "F8",
            "Without checkpoints a machine stops functioning beyond 400,000 nodes.",
            f"{_shown(none_400k)} at 409,600 nodes",
            Verdict.of(none_400k["efficiency"] < 0.005),
            "below 0.5 %",
        ),
        Claim(
            "F9",
            "Central file system: below 10 % (5 % quoted) at 1 Mi nodes; the MTTF is shorter than "
            "a checkpoint cycle there.",
            f"{_shown(pfs)}; MTTF {pfs['derived.job_mtbf']:,.0f} s, cycle {cycle:,.0f} s",
            Verdict.of(pfs["efficiency"] < 0.10 and pfs["derived.job_mtbf"] < cycle),
            "below 10 %, and MTTF < cycle",
        ),
        Claim(
            "F10",
            "Node-local storage: as high as 90 % at 1 Mi nodes.",
            _shown(dfs),
            Verdict.of(abs(dfs["efficiency"] - 0.90) < 0.05),
            "90 ± 5 points",
            "“As high as 90 %” is read as about 90 %; base 2 and MB/s are inferred.",
        ),
        Claim(
            "F11",
            "Jobs of a tenth: central 70 % at 1 Mi nodes, node-local above 95 % up to 2 Mi.",
            f"with the MTTF of the job in Daly's formula: central {_shown(tenth_pfs)}, node-local "
            f"at least {_shown(tenth_dfs)}; with the MTTF of the machine: {_shown(machine_pfs)} "
            f"and {_shown(machine_dfs)}",
            Verdict.of(_is_f11(tenth_pfs, tenth_dfs) or _is_f11(machine_pfs, machine_dfs)),
            "70 ± 5 points, and above 95 %, under one rule",
            "Each half follows from one reading of the formula, and not both from either. The "
            "text's 70 % need the MTTF of the machine, which makes jobs of a tenth write three "
            "times too often and costs the other curve its 95 %; the MTTF of the job, which is "
            "right, keeps that and gives 76 % for the central file system.",
        ),
        Claim(
            "F12",
            "Jobs of one day: node-local 90 % at 1 Mi nodes; central falls below no checkpoints.",
            f"node-local {_shown(day['dfs'])}, central {_shown(day['pfs'])}, "
            f"none {_shown(day['none'])}",
            Verdict.of(
                abs(day["dfs"]["efficiency"] - 0.90) < 0.05 and _is_above(day["none"], day["pfs"])
            ),
            "90 ± 5 points, and intervals apart",
        ),
        Claim(
            "F13",
            "Short jobs: no checkpoints beat the central file system; node-local overhead below 5 "
            "%.",
            f"none {_shown(short['none'])}, central {_shown(short['pfs'])} at 1 Mi nodes; "
            f"node-local spends at most {100 * overhead:.2f} % on checkpoints",
            # Of the trace only the mean is published; synthetic jobs decide nothing about it.
            Verdict.NOT_POSSIBLE,
            "intervals apart, and below 5 %",
            "The trace is not at hand: jobs are synthetic. Daly's interval outlasts them (28,000 s "
            "against 5,000 s at 1 Mi nodes), so that next to no checkpoint goes to the central "
            "file system and the two are equal.",
        ),
    ]


def _is_f11(central: Any, local: Any) -> bool:
    return bool(abs(central["efficiency"] - 0.70) < 0.05 and local["efficiency"] > 0.95)


def select(frame: pd.DataFrame, part: str, workload: str) -> pd.DataFrame:
    """Return the points of one part and workload, in order of nodes."""
    chosen = frame[(frame["part"] == part) & (frame["workload"] == workload)]
    return chosen.sort_values("nodes", kind="stable").reset_index(drop=True)


def at(
    frame: pd.DataFrame, workload: str, storage: str, nodes: int, part: str = "published"
) -> Any:
    """Return one point."""
    chosen = select(frame, part, workload)
    return chosen[(chosen["storage"] == storage) & (chosen["nodes"] == nodes)].iloc[0]


def _worst(frame: pd.DataFrame, workload: str, storage: str) -> Any:
    chosen = select(frame, "published", workload)
    return chosen[chosen["storage"] == storage].sort_values("efficiency").iloc[0]


def _is_above(one: Any, other: Any) -> bool:
    """Whether two efficiencies differ by more than their intervals."""
    low = one["efficiency"] - one["efficiency_half_width"]
    return bool(low > other["efficiency"] + other["efficiency_half_width"])


def _shown(row: Any) -> str:
    return f"{100 * row['efficiency']:.2f} ± {100 * row['efficiency_half_width']:.2f} %"
