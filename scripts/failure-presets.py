#!/usr/bin/env python3
"""Writes the presets lanl-2, lanl-18, lanl-19 and lanl-20: failures as fits to records.

Run it with the Python package of this repository installed; it prints the files that it wrote.
"""

from pathlib import Path

from intarsia.simulate import failures
from intarsia.simulate.failures.toml import failures_table

PRESETS = Path(__file__).resolve().parent.parent / "crates/simulate/src/checkpoint/presets"
SYSTEMS = ("2", "18", "19", "20")
RESAMPLES = 199

SCENARIO = """\
# LANL system {system}: {nodes} nodes that fail as their records from {first} to {last} say
#
# Written by scripts/failure-presets.py. A Weibull distribution of the gaps between failures,
# log-normal repairs, and bursts of records that bear the same minute. The costs of checkpoint and
# restart are those of the examples in J. T. Daly, Future Generation Computer Systems 22(3), 2006:
# 5 and 10 minutes.

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
interval = "numeric"

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


def scenario(records, system):
    """Return the text of the preset of one system."""
    chosen = records[records["system"] == system]
    gaps = failures.system_gaps(records, system)
    lifetime = failures.fit(gaps, failures.Family.WEIBULL)
    nodes = int(chosen["nodes"].max())
    sizes = failures.burst_sizes(records, system)
    table = failures_table(
        lifetime,
        source=f"{failures.LANL_CITATION}; system {system}",
        nodes=nodes,
        repair=failures.fit(failures.repair_hours(records, system), failures.Family.LOG_NORMAL),
        # No burst takes more nodes than there are.
        bursts={size: events for size, events in sizes.items() if size <= nodes},
        goodness=failures.goodness(lifetime, RESAMPLES),
    )
    fit = table.pop("fit")
    lines = ["[failures]", *entries(table), "", "[failures.fit]", *entries(fit), ""]
    years = chosen["started"].dt.year
    return SCENARIO.format(
        system=system, nodes=nodes, first=years.min(), last=years.max(), failures="\n".join(lines)
    )


def main():
    """Write all presets."""
    records = failures.lanl()
    for system in SYSTEMS:
        path = PRESETS / f"lanl-{system}.toml"
        path.write_text(scenario(records, system))
        print(path)


if __name__ == "__main__":
    main()
