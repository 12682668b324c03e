"""Files of profiles, corrected by what runs have left in their directories."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.refine.corrections import Correction
from intarsia.refine.engine import COST, ENGINE, ENGINE_FORMAT, EngineCost, with_engine
from intarsia.refine.profile import COMPARISON_FORMAT, RefineError, read_json, refined
from intarsia.simulate.files import write_atomically

#: What `intarsia run --advice` leaves in its run directory.
COMPARED = "predicted.json"
PROFILE_FORMAT = "intarsia-profile"
_COMPARED = ("id", "profile", "comparison", "hosts", "tasks", "moved_bytes")


@dataclass(frozen=True)
class RefinedFile:
    """A profile as it was written, its corrections by kind of work, and what the engine takes."""

    profile: Mapping[str, Any]
    corrections: Mapping[str, Correction]
    cost: EngineCost | None
    #: Whether runs were held against predictions.
    is_compared: bool


def refine_file(source: Path, runs: Sequence[Path], out: Path) -> RefinedFile:
    """Write the profile `source`, corrected by runs, to `out`, which may be the same file.

    Of several processes that correct the files of one directory at once each sees what the one
    before has written. Raises RefineError and OSError.
    """
    with _alone_in(out.absolute().parent):
        profile = read_json(source, PROFILE_FORMAT)
        found_in = [_of(run) for run in runs]
        compared = [one for one, _ in found_in if one is not None]
        made, found = refined(profile, compared) if compared else (profile, {})
        made, cost = with_engine(made, [one for _, one in found_in if one is not None])
        write_atomically(out, (json.dumps(made, indent=1) + "\n").encode())
    return RefinedFile(made, found, cost, bool(compared))


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which leaves no file behind."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _of(run: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What a run left: a prediction held against it, and what its engine took; one at least."""
    if not run.is_dir():
        return _document(run, COMPARISON_FORMAT, _COMPARED), None
    compared, cost = run / COMPARED, run / ENGINE
    if not compared.exists() and not cost.exists():
        raise RefineError(f"{run}: has neither {COMPARED} nor {ENGINE}; is it a run directory?")
    return (
        _document(compared, COMPARISON_FORMAT, _COMPARED) if compared.exists() else None,
        _document(cost, ENGINE_FORMAT, COST) if cost.exists() else None,
    )


def _document(path: Path, form: str, fields: Collection[str]) -> dict[str, Any]:
    document = read_json(path, form)
    missing = set(fields) - set(document)
    if missing:
        raise RefineError(f"{path}: field {sorted(missing)[0]!r} is missing")
    return document
