"""`intarsia run`: the command line."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from intarsia.arguments import argument
from intarsia.engines.shell import shell_in
from intarsia.run.choices import SCHEDULES, Choices
from intarsia.run.names import hosts_in
from intarsia.run.protect import HOST_MTBF_H
from intarsia.run.session import carry_out
from intarsia.run.streams import open_streams
from intarsia.units import payload_rate, size_in_bytes

_EXAMPLES = """\
A WORKFLOW is a graph of commands in YAML, a Makefile, or an instance of WfFormat 1.5, which is
replayed: files of random bytes in the recorded sizes, and the computation slept. The same command
goes on where an earlier one stopped, whatever ended that.

Examples:
  intarsia run counts.yaml                                         on this host
  intarsia run counts.yaml --directory /mnt/work --hosts node01,node02,node03
  intarsia run counts.yaml --dry-run                               what would run, in which order
  intarsia run montage.json --scale 0.01 --time-scale 0.1 --report build/montage
  intarsia run counts.yaml --scheduler tcp://10.0.0.1:8786         workers that are there already
  intarsia run counts.yaml --up /mnt/work --hosts 'node[01-08]' --advice advice.json
  intarsia run counts.yaml --up /mnt/work --hosts 'node[01-08]' --stage-in /project/texts/. \\
      --stage-out /project/counts                                  from nothing to results

Exit codes:
  0  all tasks are done
  1  a task failed, there was nothing to run it on, the store stayed away, or what was asked for
     could not be written
  2  the workflow or the command line is wrong, or an input is missing
  4  another run uses the same run directory
  130, 143  stopped by SIGINT or SIGTERM"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="intarsia run",
        description="Run a workflow's tasks over hosts, beside their data.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("workflow", metavar="WORKFLOW", type=Path)
    add = made.add_argument_group("where").add_argument
    add(
        "--directory",
        type=Path,
        metavar="DIR",
        help="where the files of the workflow lie, as all hosts see it [default: here; with --up "
        "its mount]",
    )
    add(
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="journal and logs [default: .run-NAME in the directory]",
    )
    add(
        "--hosts",
        type=argument(hosts_in),
        default=(),
        metavar="A,B,…",
        help="a worker on each, also as node[01-08] [default: this host; with --up all of its]",
    )
    add(
        "--shell",
        type=argument(shell_in),
        metavar="CMD",
        help="how commands are begun on {host} [default: srun in a job of Slurm, else ssh]",
    )
    add(
        "--address",
        metavar="ADDRESS",
        help="address of this host, for workers [default: that from which it reaches them]",
    )
    add("--slots", type=_positive, metavar="N", help="tasks at once on a host [default: its cores]")
    add(
        "--scheduler",
        type=_scheduler,
        metavar="ADDRESS",
        help="a dask.distributed scheduler with workers of its own",
    )
    _add_around(made)
    add = made.add_argument_group("how").add_argument
    add(
        "--advice",
        type=Path,
        metavar="FILE",
        help="run as this advice recommends, say what of it is applied, and hold what the run took "
        "against it; it is what `intarsia advise --json` prints",
    )
    add(
        "--refine",
        type=Path,
        metavar="PROFILE",
        help="correct this profile by the run once it has ended well, in place, as `intarsia "
        "refine` does: by what an advice had foretold, and by what the engine took for each task",
    )
    add(
        "--schedule",
        choices=SCHEDULES,
        help="where tasks run: beside their data; on any free host; beside their data, which is "
        "copied ahead of them [default: local, or as advised]",
    )
    add(
        "--patience",
        dest="patience_s",
        type=_seconds,
        metavar="S",
        help="how long a task waits for the host of its data [default: as long as that is expected "
        "to be free sooner than the link has moved its input]",
    )
    add(
        "--in-order",
        action="store_true",
        help="tasks begin in the order in which they became ready; otherwise a free host takes the "
        "one of whose input it has the largest share",
    )
    add(
        "--ahead-bytes",
        type=argument(size_in_bytes),
        default=10_000_000_000,
        metavar="SIZE",
        help="with wow, how much is copied ahead in all, as 20GB [default: 10GB]",
    )
    add(
        "--ahead-space",
        type=argument(size_in_bytes),
        metavar="SIZE",
        help="with wow, how much may lie on each host for tasks that have not begun "
        "[default: no bound]",
    )
    add(
        "--ahead-link",
        type=argument(payload_rate),
        metavar="RATE",
        help="with wow, how much of each host's link copies may take, on average "
        "[default: all of it]",
    )
    add(
        "--hints",
        choices=("learned", "derived", "own", "none"),
        help="set on outputs: what earlier runs teach, else derived from the graph, and the "
        "tasks' own; without earlier runs; only the tasks' own; none [default: learned, or as "
        "advised]",
    )
    add(
        "--learn",
        type=Path,
        action="append",
        default=[],
        metavar="RECORD",
        help="learn hints from this run too: of --record, WfFormat, or a trace of Nextflow; "
        "repeatable [default: from the last run in the run directory]",
    )
    add(
        "--link",
        dest="link_bytes_per_s",
        type=argument(payload_rate),
        metavar="RATE",
        help="rate of the hosts' links, as 200mbit, by which waiting, copies and hints are weighed "
        "[default: 1gbit, or as the profile of the advice has it]",
    )
    add(
        "--retries",
        type=_count,
        default=0,
        metavar="N",
        help="how often a task is tried again, where it does not say [default: 0]",
    )
    add(
        "--timeout",
        dest="timeout_s",
        type=_seconds,
        metavar="S",
        help="the most a task may take, where it does not say",
    )
    add(
        "--keep-going",
        dest="keeps_going",
        action="store_true",
        help="after a failure run what does not need it",
    )
    add(
        "--lineage",
        dest="remakes",
        action="store_true",
        help="make files again that were lost with a host; where that costs more, by earlier runs, "
        "keep copies",
    )
    add(
        "--mtbf",
        dest="mtbf_h",
        type=_hours,
        default=HOST_MTBF_H,
        metavar="HOURS",
        help="with --lineage: hours between losses of a host, by which copies are weighed against "
        "making files again [default: %(default)g]",
    )
    add("--fresh", action="store_true", help="forget what was done before")
    add("--dry-run", action="store_true", help="print what would run, and run nothing")
    add = made.add_argument_group("replays of WfFormat").add_argument
    add("--scale", type=_factor, default=1.0, metavar="X", help="bytes of files times this")
    add("--time-scale", type=_factor, default=1.0, metavar="X", help="computation times this")
    add("--burn", dest="burns", action="store_true", help="keep a core busy instead of sleeping")
    add = made.add_argument_group("what is told").add_argument
    add("--json", action="store_true", help="print the summary as JSON")
    add(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the run as WfFormat 1.5, with start times",
    )
    add("--trace", type=Path, metavar="FILE", help="write a Chrome trace")
    add("--report", type=Path, metavar="DIR", help="write a page: report.html")
    add(
        "--live",
        type=_address,
        metavar="[ADDRESS:]PORT",
        help="serve a page on the run while it goes on, for whoever reaches it; 0 is any free port",
    )
    add("--quiet", action="store_true", help="say nothing on standard error but failures")
    return made


def _add_around(made: argparse.ArgumentParser) -> None:
    """What happens before the first task and after the last."""
    add = made.add_argument_group("from nothing to results").add_argument
    add(
        "--up",
        type=Path,
        metavar="MOUNT",
        help="bring a store up here, on --hosts or those of the job, and take it down at the end, "
        "however that comes",
    )
    add(
        "--up-options",
        type=shlex.split,
        default=(),
        metavar="WORDS",
        help="more options of `intarsia up`, as '--tier /local/ssd/work'",
    )
    add(
        "--stage-in",
        action="append",
        default=[],
        metavar="SOURCE",
        help="copy this into the directory first, verified; repeatable; SOURCE/. is its content",
    )
    add(
        "--stage-out",
        type=Path,
        metavar="DEST",
        help="copy the results that are done here, verified: what tasks make and none reads",
    )
    add(
        "--discard",
        dest="discards",
        action="store_true",
        help="with --up: delete the data also where it is not copied out [default: after a run "
        "that went well, and --stage-out]",
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run a workflow; returns the exit code."""
    open_streams()
    given = parser().parse_args(words)
    if given.scheduler and (given.hosts or given.shell or given.slots):
        parser().error("--scheduler has workers already; leave out --hosts, --shell and --slots")
    if given.up is None and (given.up_options or given.discards):
        parser().error("--up-options and --discard are for --up")
    return carry_out(Choices(**vars(given)))


def _positive(text: str) -> int:
    return _whole(text, 1)


def _count(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if text.isdecimal() and int(text) >= least:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}: a whole number from {least} is expected")


def _seconds(text: str) -> float:
    return _number(text, "seconds from 0 are expected")


def _factor(text: str) -> float:
    return _number(text, "a number from 0 is expected")


def _address(text: str) -> str:
    port = text.rpartition(":")[2]
    if port.isdecimal() and int(port) < 1 << 16:
        return text
    raise argparse.ArgumentTypeError(f"{text!r}: a port is expected, as in 8080 or 0.0.0.0:8080")


def _scheduler(text: str) -> str:
    if re.fullmatch(r"([a-z]+://)?[^/\s]+:\d+", text):
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r}: an address with a port is expected, as in tcp://10.0.0.1:8786"
    )


def _hours(text: str) -> float:
    hours = _number(text, "hours above 0 are expected")
    if hours:
        return hours
    raise argparse.ArgumentTypeError(f"{text!r}: hours above 0 are expected")


def _number(text: str, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if 0 <= number < float("inf"):
        return number
    raise argparse.ArgumentTypeError(f"{text!r}: {expected}")


if __name__ == "__main__":
    sys.exit(main())
