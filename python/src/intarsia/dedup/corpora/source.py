"""Histories of source trees: each revision of a git repository, packed into a tar, is a backup."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from intarsia.dedup.corpora.tools import run
from intarsia.dedup.errors import DedupError


def pack_revisions(repository: Path, revisions: Sequence[str], out: Path) -> list[Path]:
    """Write a tar of each revision, in this order, into the new directory `out`.

    Raises DedupError with what git says of a repository or a revision that there is not.
    """
    if shutil.which("git") is None:
        raise DedupError("git is not in the PATH, and packs source trees: install it")
    if out.exists() and any(out.iterdir()):
        raise DedupError(f"{out} is not empty: name a new directory")
    # All are looked up before anything is written.
    hashes = [_resolved(repository, revision) for revision in revisions]
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for number, (revision, commit) in enumerate(zip(revisions, hashes, strict=True)):
        name = re.sub(r"[^A-Za-z0-9._-]", "-", revision)
        path = out / f"{number:03}-{name}.tar"
        _git(repository, "archive", "--format=tar", f"--output={path.absolute()}", commit)
        made.append(path)
    return made


def _resolved(repository: Path, revision: str) -> str:
    return _git(
        repository, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}"
    ).strip()


def _git(repository: Path, *words: str) -> str:
    return run(["git", "-C", str(repository), *words], f"{repository}: git {words[0]} {words[-1]}")
