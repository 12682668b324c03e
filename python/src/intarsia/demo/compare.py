"""Bit-by-bit comparison of two directory trees by SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

Digests = dict[str, str]
"""Relative path → SHA-256 in hexadecimal."""


def digests(directory: Path, patterns: Sequence[str]) -> Digests:
    """Digest every file under `directory` whose name matches one of `patterns`."""
    found = {path for pattern in patterns for path in directory.rglob(pattern) if path.is_file()}
    return {str(path.relative_to(directory)): _sha256(path) for path in sorted(found)}


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Say how `found` differs from `expected`, one sentence a file."""
    said = []
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            said.append(f"{name} is missing")
        elif name not in expected:
            said.append(f"{name} is there but should not be")
        elif expected[name] != found[name]:
            said.append(f"{name} differs: {found[name][:16]}…, expected {expected[name][:16]}…")
    return said


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
