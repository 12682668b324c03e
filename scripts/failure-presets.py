#!/usr/bin/env python3
"""Writes the presets lanl-2, lanl-18, lanl-19, lanl-20 and lanl-20-nodes: fits to failure records.

Run it with the Python package of this repository installed; it prints the files that it wrote.
"""

from pathlib import Path

from intarsia.simulate import failures
from intarsia.simulate.failures.toml import failures_table

PRESETS = Path(__file__).resolve().parent.parent / "crates/simulate/src/checkpoint/presets"
SYSTEMS = ("2", "18", "19", "20")
RESAMPLES = 199

SCENARIO = """\
# LANL system {system}: {nodes} nodes that fail as {whose} records from {first} to {last} say
#
# Written by scripts/failure-presets.py. Weibull gaps between failures
# {of_what}.
# The costs of checkpoint and restart are those of the examples in J. T. Daly, Future Generation
# Computer Systems 22(3), 2006: 5 and 10 minutes.

[machine]
nodes = {nodes}
reboot = "10 min"

{failures}
[[level]]
name = "storage"
kind = "lower"
write = "5 min"
restore = "0 s"

[checkpoint]
interval = "{interval}"

[workload]
walltime = "7 days"

[run]
horizon = "5 years"
replications = 20
"""


def inline(value):
    """Return a value as TOML on one line; numbers with five digits, more than the fits know."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {inline(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(inner) for inner in value) + "]"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, str):
        number, _, unit = value.partition(" ")
        return f'"{float(number):.5g} {unit}"' if unit == "h" else f'"{value}"'
    return str(value)


def entries(table):
    """Return the lines of a table."""
    return [f"{key} = {inline(value)}" for key, value in table.items()]


def scenario(records, system, *, per_node):
    """Return the text of the preset of one system."""
    chosen = records[records["system"] == system]
    gaps = (failures.node_gaps if per_node else failures.system_gaps)(records, system)
    lifetime = failures.fit(gaps, failures.Family.WEIBULL)
    nodes = int(chosen["nodes"].max())
    sizes = failures.burst_sizes(records, system)
    table = failures_table(
        lifetime,
        source=f"{failures.LANL_CITATION}; system {system}",
        nodes=None if per_node else nodes,
        repair=failures.fit(failures.repair_hours(records, system), failures.Family.LOG_NORMAL),
        # No burst takes more nodes than there are; and nodes by themselves know of no bursts.
        bursts=None if per_node else {size: sizes[size] for size in sizes if size <= nodes},
        # Censored gaps have no goodness of fit.
        goodness=None if per_node else failures.goodness(lifetime, RESAMPLES),
    )
    if per_node:
        # The records begin when the nodes were new, and many failed early.
        table["first"] = "ordinary"
    fit = table.pop("fit")
    lines = ["[failures]", *entries(table), "", "[failures.fit]", *entries(fit), ""]
    years = chosen["started"].dt.year
    return SCENARIO.format(
        system=system,
        nodes=nodes,
        whose="each node's own" if per_node else "the system's",
        first=years.min(),
        last=years.max(),
        of_what="of a node, open gaps censored; log-normal repairs"
        if per_node
        else "of the system; log-normal repairs; bursts within a minute",
        failures="\n".join(lines),
        # No formula holds for superposed Weibull clocks.
        interval="simulated" if per_node else "numeric",
    )


def main():
    """Write all presets."""
    records = failures.lanl()
    presets = {f"lanl-{system}": (system, False) for system in SYSTEMS} | {
        "lanl-20-nodes": ("20", True)
    }
    for name, (system, per_node) in presets.items():
        path = PRESETS / f"{name}.toml"
        path.write_text(scenario(records, system, per_node=per_node))
        print(path)


if __name__ == "__main__":
    main()
