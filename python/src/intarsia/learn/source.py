"""Reads a record of an earlier run, of whatever form it is."""

from __future__ import annotations

from pathlib import Path

from intarsia.learn.nextflow import is_trace, read_trace
from intarsia.learn.observed import LearnError, Observed
from intarsia.learn.record import read_record


def observed_in(path: Path, work: Path | None = None) -> Observed:
    """Read a record of `intarsia run`, another instance of WfFormat, or a trace of Nextflow.

    `work` is Nextflow's work directory; without a word it is `work` beside the trace. Raises
    LearnError.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LearnError(str(path), f"cannot be read: {error}", "name a record of a run") from None
    if is_trace(text):
        return read_trace(str(path), text, work or path.parent / "work")
    return read_record(str(path), text)
