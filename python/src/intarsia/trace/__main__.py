"""`python -m intarsia.trace`: what `intarsia trace` starts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from intarsia.simulate.files import write_atomically
from intarsia.trace.cached import without_hits
from intarsia.trace.calls import RECORD
from intarsia.trace.darshan import read_darshan
from intarsia.trace.errors import TraceError
from intarsia.trace.export import chrome_of, wfformat_of
from intarsia.trace.native import is_native, read_native
from intarsia.trace.recorded import MARK, read_recorded
from intarsia.trace.reuse import with_new_stages
from intarsia.trace.sample import sample
from intarsia.trace.strace import read_strace
from intarsia.trace.wfformat import read_instance
from intarsia.trace.workload import Workload
from intarsia.units import bytes_text, size_in_bytes

EXIT_FAILURE = 1
_DARSHAN_MARK = "# darshan log version"

_DESCRIPTION = """\
Make a workload, which `intarsia predict` and `intarsia advise` read, from what was recorded of a
run: logs of `intarsia record`, a log of strace, logs of Darshan (binary, or the text of
darshan-parser), an instance of WfFormat 1.5 or 1.6, or what `intarsia run --record` wrote; or take
a workload that was made before, to join or to export it. The workload says which task reads and
writes what and how long it computes, and nothing of the store that it ran on.
"""
_EXAMPLES = f"""\
Examples:
  {RECORD}
  intarsia trace LOG --below /mnt/work --out workload.json
  intarsia trace job1.darshan job2.darshan --below /mnt/work --out workload.json
  intarsia trace n1.trace n2.trace --out workload.json              a log of each host
  intarsia trace montage.json --as chrome --out trace.json          for Perfetto
  intarsia trace LOG --reuse workload.json --stages sort --out new.json
                                    only `sort` was changed and recorded again

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
    add(
        "--reuse",
        metavar="WORKLOAD",
        type=Path,
        help="a workload made before, of which only stages that the records have are replaced",
    )
    add(
        "--stages",
        metavar="NAME,...",
        help="with --reuse: which stages are replaced [default: all that the records have]",
    )
    add(
        "--cache",
        metavar="SIZE",
        type=_size,
        help="leave out what a task reads again while it has it in a memory of SIZE, as 4GiB",
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


def _size(text: str) -> int:
    try:
        return size_in_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(words: Sequence[str] | None = None) -> int:
    """Make a workload; returns the exit code."""
    commands = parser()
    given = commands.parse_args(words)
    if given.stages and given.reuse is None:
        commands.error("--stages says what of a workload is replaced: give it by --reuse WORKLOAD")
    try:
        workload = _made(given)
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


def _made(given: argparse.Namespace) -> Workload:
    workload = read(given.records, given.below, whole=given.tasks == "log")
    if given.reuse is not None:
        workload = _joined(workload, given)
    workload.name = given.name or workload.name
    kept = sample(workload, given.sample)
    if kept < len(workload.tasks):
        workload.warnings.append(
            f"computation is that of {kept} of {len(workload.tasks)} tasks, chosen by chance"
        )
    if given.cache is not None:
        hits = without_hits(workload, given.cache)
        workload.warnings.append(
            f"{hits.ratio:.1%} of what tasks read ({bytes_text(hits.hit_bytes)}) is left out: "
            f"they have it in {bytes_text(given.cache)} of memory"
        )
    return workload


def _joined(new: Workload, given: argparse.Namespace) -> Workload:
    """The workload of `--reuse` with the stages that were recorded anew."""
    source = str(given.reuse)
    text = _text(source)
    document = None if text is None else _document(source, text)
    if not is_native(document):
        raise TraceError(source, "", "is no workload", "make one: intarsia trace … --out FILE")
    known = read_native(source, document)
    replaced = [name for name in (given.stages or "").split(",") if name] or new.stages
    made = with_new_stages(known, given.records[0], new, replaced)
    stayed = len(known.stages) - len(replaced)
    made.warnings.append(f"as recorded now: {', '.join(replaced)}; {stayed} stages as they were")
    return _checked(made, given.records[0])


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
    document = _document(records[0], first)
    if document is not None and "schemaVersion" in document:
        return _checked(read_instance(records[0], document), records[0])
    if is_native(document):
        return _checked(read_native(records[0], document), records[0])
    if document is not None:
        raise TraceError(
            records[0],
            "field 'schemaVersion'",
            "is missing: this is neither WfFormat nor a workload of ours",
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


def _document(path: str, text: str) -> dict[str, Any] | None:
    """The JSON object that a record is; None where it is none, as a log of strace."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        document: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise TraceError(path, "", f"is no JSON: {error}") from None
    return document


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
