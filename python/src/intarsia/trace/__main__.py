"""`python -m intarsia.trace`: what `intarsia trace` starts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from intarsia.run.wfformat import is_wfformat
from intarsia.simulate.files import write_atomically
from intarsia.trace.calls import RECORD
from intarsia.trace.darshan import read_darshan
from intarsia.trace.errors import TraceError
from intarsia.trace.export import chrome_of, wfformat_of
from intarsia.trace.recorded import MARK, read_recorded
from intarsia.trace.sample import sample
from intarsia.trace.strace import read_strace
from intarsia.trace.wfformat import read_instance
from intarsia.trace.workload import Workload

EXIT_FAILURE = 1
_DARSHAN_MARK = "# darshan log version"

_DESCRIPTION = """\
Make a workload, which `intarsia predict` and `intarsia advise` read, from what was recorded of a
run: logs of `intarsia record`, a log of strace, logs of Darshan (binary, or the text of
darshan-parser), an instance of WfFormat 1.5 or 1.6, or what `intarsia run --record` wrote. The
workload says which task reads and writes what and how long it computes, and nothing of the store
that it ran on.
"""
_EXAMPLES = f"""\
Examples:
  {RECORD}
  intarsia trace LOG --below /mnt/work --out workload.json
  intarsia trace job1.darshan job2.darshan --below /mnt/work --out workload.json
  intarsia trace n1.trace n2.trace --out workload.json              a log of each host
  intarsia trace montage.json --as chrome --out trace.json          for Perfetto

Of logs of `intarsia record` a task is a process that reads or writes in the store, and --below a
directory of the store. Of a log of strace a task is a process that reads or writes below the
directory. The time between these calls is its computation, but for what it waited for other
processes. Of Darshan a task is a rank of a job. A file that several tasks write is several files
here, NAME@2 and so on."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="intarsia trace",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add(
        "records", nargs="+", metavar="RECORD", help="several only of `intarsia record` and Darshan"
    )
    add(
        "--below",
        metavar="DIR",
        help="whose files count [default: the working directory; of Darshan and stores all]",
    )
    add(
        "--tasks",
        choices=("process", "log"),
        default="process",
        help="of strace and stores: a task is a process, or all of the log [default: process]",
    )
    add(
        "--as",
        dest="form",
        choices=("workload", "wfformat", "chrome"),
        default="workload",
        help="what is written: our form, WfFormat 1.5, a Chrome trace [default: workload]",
    )
    add(
        "--sample",
        metavar="SHARE",
        type=_share,
        default=1.0,
        help="keep the computation of this share of the tasks of each stage, as 20%%, and give it "
        "to the others: what is known when no more were traced [default: all]",
    )
    add("--name", metavar="NAME", help="of the workload")
    add("--out", metavar="FILE", type=Path, help="where it goes [default: printed]")
    return made


def _share(text: str) -> float:
    """Read a share.

    >>> _share("20%"), _share("0.5")
    (0.2, 0.5)
    """
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if 0 < share <= 1:
        return share
    raise argparse.ArgumentTypeError(f"{text!r}: a share above 0 is expected, 100% at most")


def main(words: Sequence[str] | None = None) -> int:
    """Make a workload; returns the exit code."""
    given = parser().parse_args(words)
    try:
        workload = read(given.records, given.below, whole=given.tasks == "log")
        workload.name = given.name or workload.name
        kept = sample(workload, given.sample)
        if kept < len(workload.tasks):
            workload.warnings.append(
                f"computation is that of {kept} of {len(workload.tasks)} tasks, chosen by chance"
            )
        forms = {"workload": Workload.native, "wfformat": wfformat_of, "chrome": chrome_of}
        text = json.dumps(forms[given.form](workload), indent=1) + "\n"
        if given.out is None:
            sys.stdout.write(text)
        else:
            write_atomically(given.out, text.encode())
    except TraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILURE
    for warning in workload.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    _tell(workload, given.out)
    return 0


def read(records: Sequence[str], below: str | None, *, whole: bool = False) -> Workload:
    """Read records of one kind as a workload; raises TraceError."""
    if all(map(_is_recorded, records)):
        return _checked(read_recorded(records, below or "", whole=whole), records[0])
    first = _text(records[0])
    if first is None or first.lstrip().startswith(_DARSHAN_MARK):
        return _checked(read_darshan(records, below or ""), records[0])
    if len(records) > 1:
        raise TraceError(
            records[1],
            "",
            "only logs of one kind, of `intarsia record` or Darshan, are read together",
        )
    if is_wfformat(first):
        return _checked(read_instance(records[0], first), records[0])
    if first.lstrip().startswith("{"):
        raise TraceError(
            records[0],
            "field 'schemaVersion'",
            "is missing: this is no WfFormat",
            "a workload of ours need not be read again: give it to `intarsia predict`",
        )
    made = read_strace(records[0], first, str(Path(below or ".").absolute()), whole=whole)
    return _checked(made, records[0])


def _checked(workload: Workload, source: str) -> Workload:
    workload.check(source)
    return workload


def _is_recorded(path: str) -> bool:
    """Whether it is a log of `intarsia record`, or what is left of one."""
    if path == "-":
        return False
    with Path(path).open("rb") as log:
        first = log.read(len(MARK))
    return bool(first) and MARK.startswith(first)


def _text(path: str) -> str | None:
    """The text of a record; None if it is binary."""
    content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if not content.strip():
        raise TraceError(path, "", "is empty")
    is_binary = b"\0" in content[:4096]
    return None if is_binary else content.decode("utf-8", "backslashreplace")


def _tell(workload: Workload, out: Path | None) -> None:
    read = sum(sum(task.files("read").values()) for task in workload.tasks)
    written = sum(sum(task.files("write").values()) for task in workload.tasks)
    compute_s = sum(task.compute_s for task in workload.tasks)
    where = f", written to {out}" if out is not None else ""
    print(
        f"{workload.name}: {len(workload.tasks)} tasks, {len(workload.files)} files, "
        f"{read / 1e6:.1f} MB read, {written / 1e6:.1f} MB written, "
        f"{compute_s:.2f} s computed{where}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
