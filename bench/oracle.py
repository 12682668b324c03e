#!/usr/bin/env python3
"""Whether a tolerance of 10 % over what is foretold tells a bug from a store that is well, over the hosts of a quiet lab.

A store is seeded and what a task takes is measured while it is well. Then workflows whose time is that of links run on it, without any bug and
with each that is brought back by its switch (crates/sync/src/relapse.rs), in turn; each has a median of its runs held against what `intarsia predict` says of it. Costa (PhD
thesis, University of British Columbia, 2014, chapter 4) used 10 % on machines that did nothing else.

example:
  bench/oracle.py --repeat 5
"""

import os
import statistics
import tempfile
import types
from pathlib import Path

import accuracy_cells
import accuracy_score
import command_line
import kept
import labs
import predicted
import predicted_cases

TOLERANCE = 1.10
#: The store that is well; bugs of a moment; one that is met once, so that it has a store of its own.
STATES = ("mended", "constant-order", "coarse-lock", "asked-twice")
LATE = "late-connection"
CASES = [
    {"pattern": "reduce", "mb": 6, "layout": "wide", "width": 4, "name": "reduce"},
    {"pattern": "pipeline", "mb": 2, "layout": "wide", "width": 4, "name": "pipeline"},
    {"pattern": "broadcast", "mb": 4, "layout": "local", "width": 4, "name": "broadcast"},
]


def rows(arguments):
    """Seconds foretold and measured by state and case, and how busy the processors were."""
    cell = {"system": "lab-store", "hosts": arguments.hosts, "link": arguments.link, "medium": None, "slots": None}
    found, lines = {}, []
    with tempfile.TemporaryDirectory(prefix="bench-oracle-") as home:
        switch = Path(home) / "relapse"
        switch.write_text("")
        os.environ["INTARSIA_RELAPSE"] = str(switch)
        busy = kept.busy_s()
        with accuracy_cells.running(cell, arguments.program) as system, predicted_cases.Crew(1, arguments.hosts) as crew:
            lines.append({"role": "seed", "profile": predicted.seeded(system, arguments.seconds, 1, [])})
            chains = accuracy_cells.Placed({"name": "chains", "pattern": "pipeline", "width": arguments.hosts, "mb": 1, "layout": "own"}, cell)
            for number in range(5):
                lines.append({"role": "overhead", "case": "chains", "busy": 0, "seconds": chains.run(system, crew, f"o{number}")})
            for number, state in labs.in_turn(STATES, arguments.repeat):
                switch.write_text("" if state == "mended" else state)
                for case in CASES:
                    made = accuracy_cells.Placed(case, cell)
                    found.setdefault((state, case["name"]), []).append(made.run(system, crew, f"{state}{number}"))
        switch.write_text(LATE)
        for number in range(2):
            with accuracy_cells.running(cell, arguments.program) as system, predicted_cases.Crew(1, arguments.hosts) as crew:
                made = accuracy_cells.Placed(CASES[0], cell)
                found.setdefault((LATE, CASES[0]["name"]), []).append(made.run(system, crew, f"late{number}"))
        busy = kept.busy_share(busy)
        key = tuple(cell[axis] for axis in accuracy_score.CELL)
        scored = accuracy_score.Cell(key, lines, types.SimpleNamespace(busiest=1.0, program=arguments.program), home, [])
        foretold = {case["name"]: scored.seconds(scored.made(case), scored.overheads) for case in CASES}
    return found, foretold, busy


def main():
    """Measure and print."""
    parser = command_line.parser(__doc__)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--link", default="100mbit", help="rate of each link (%(default)s)")
    parser.add_argument("--seconds", type=float, default=15, help="of seeding (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--program", default=str(labs.PROGRAM))
    arguments = parser.parse_args()
    labs.end_on_signals()
    found, foretold, busy = rows(arguments)
    print(f"commit {kept.commit()}, {arguments.hosts} hosts, links {arguments.link}, processors busy {busy:.0%}, load {os.getloadavg()[0]:.1f}; seconds; allowed: {TOLERANCE:g} times")
    for (state, case), times in found.items():
        ratio = statistics.median(times) / foretold[case]
        verdict = "well" if ratio <= TOLERANCE else "FOUND"
        print(f"{state:16} {case:10} foretold {foretold[case]:6.3f}  median {statistics.median(times):6.3f} ({min(times):.3f} to {max(times):.3f}, n = {len(times)})  {ratio:5.2f} times  {verdict}")


if __name__ == "__main__":
    main()
