"""`python -m intarsia.learn`: which hints an earlier run teaches, and why."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from intarsia.arguments import argument
from intarsia.learn.lessons import Costs, Lesson, lessons_of
from intarsia.learn.observed import LearnError, Observed, Role
from intarsia.learn.rules import rules_of
from intarsia.learn.source import observed_in
from intarsia.learn.tell import HEADS, in_order, object_of, row_of
from intarsia.schedule.host import LINK_BYTES_PER_S
from intarsia.tables import print_table
from intarsia.units import payload_rate

_USAGE = 2
_EXAMPLES = """\
A RECORD is what `intarsia run --record` wrote, another instance of WfFormat 1.5, or a trace of
Nextflow (`nextflow run … -with-trace trace.txt`), whose work directory must still be there.

Examples:
  python -m intarsia.learn run.json                     which hints pay, by rule, and why
  python -m intarsia.learn trace.txt --work /mnt/work/nextflow --link 10gbit
  python -m intarsia.learn trace.txt --rules            as rules of a store
  intarsia run counts.yaml --hosts n1,n2 --learn run.json   run with what was learned

Exit codes: 0 said, 2 a record cannot be used"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m intarsia.learn",
        description="Say which hints an earlier run of a workflow teaches, and why.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("records", nargs="+", metavar="RECORD", type=Path, help="of several the last one counts")
    add("--work", type=Path, metavar="DIR", help="Nextflow's work directory [default: work there]")
    add(
        "--link",
        type=argument(payload_rate),
        default=LINK_BYTES_PER_S,
        metavar="RATE",
        help="rate of the hosts' links, as 200mbit [default: 1gbit]",
    )
    add("--rules", action="store_true", help="print rules for `intarsia hint rule add`")
    add("--json", action="store_true", help="print JSON")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Say what is learned; returns the exit code."""
    given = parser().parse_args(words)
    try:
        runs = [observed_in(path, given.work) for path in given.records]
    except LearnError as error:
        print(f"error: {error}", file=sys.stderr)
        return _USAGE
    lessons = lessons_of(runs, Costs(given.link))
    ordered = in_order(lessons.values())
    rules = rules_of((file for run in runs for file in run.files), lessons)
    if given.json:
        told = [object_of(one) | {"rule": rules.get(one.role)} for one in ordered]
        print(json.dumps(told, indent=2))
    elif given.rules:
        _print_rules(ordered, rules)
    else:
        _print_table(runs, ordered)
    return 0


def _print_table(runs: Sequence[Observed], lessons: Sequence[Lesson]) -> None:
    files = sum(len(run.files) for run in runs)
    title = f"{files} files of {', '.join(run.source for run in runs)}"
    print_table(title, HEADS, map(row_of, lessons))


def _print_rules(lessons: Sequence[Lesson], rules: dict[Role, str]) -> None:
    for lesson in lessons:
        if lesson.hints and lesson.role not in rules:
            print(f"{lesson.role}: no glob tells its files from others", file=sys.stderr)
    for rule in rules.values():
        print(rule)


if __name__ == "__main__":
    sys.exit(main())
