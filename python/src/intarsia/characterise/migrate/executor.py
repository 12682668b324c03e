"""Copying, verifying, switching over, and back."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.migrate.journal import Journal, State
from intarsia.tag import PREFIX

_PIECE = 1 << 20
#: Says where a file is to lie. New ones have it from their directory.
_TIER_HINT = f"{PREFIX}tier"
#: What a file system says of attributes that it does not keep, or not for this user.
_NOT_KEPT = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENODATA, errno.EINVAL)
Say = Callable[[int], None]
"""Is told the bytes that were copied since the last time."""


@dataclass(frozen=True)
class Report:
    """What is to be moved, or was."""

    source: Path
    target: Path
    files: int
    bytes: int
    journal: Path


def plan_of(source: Path, directory: Path) -> Report:
    """Return what moving `source` into `directory` would do, without doing anything.

    Raises `CharacteriseError` when it cannot be done: no room, a name that is taken, a file that is
    neither a file, a directory nor a link.
    """
    source = source.absolute()
    target = directory.absolute() / source.name
    journal = target.with_name(f".{source.name}.migration.json")
    if not directory.is_dir():
        raise CharacteriseError(f"{directory}: no directory to move into; make it first")
    if not os.path.lexists(source):
        raise CharacteriseError(f"{source}: there is nothing to move")
    if source == target or source in target.parents:
        raise CharacteriseError(f"{source} cannot be moved into {directory}: it is there already")
    if os.path.lexists(target) and not _is_under_way(journal, source):
        raise CharacteriseError(f"{target} exists; nothing is overwritten: move or rename it first")
    sizes = [_size(path) for path in _files(source)]
    room = shutil.disk_usage(directory).free
    if sum(sizes) > room:
        raise CharacteriseError(
            f"{directory}: {sum(sizes)} bytes do not fit into the {room} that are free"
        )
    return Report(source, target, len(sizes), sum(sizes), journal)


def migrate(
    source: Path,
    directory: Path,
    *,
    bytes_per_second: float | None = None,
    link: bool = False,
    say: Say = lambda _: None,
) -> Report:
    """Move a file or a tree into a directory.

    Everything is copied and read back; only when all sums agree and nothing has changed at the
    source meanwhile is the source removed (with `link` it becomes a symbolic link to the target).
    What was interrupted goes on when called again. Raises `CharacteriseError` when the source
    changes or a sum differs; the source is complete then.
    """
    report = plan_of(source, directory)
    file_system = directory.stat().st_dev
    journal = _begin(report, link)
    if journal.state is State.COPYING:
        throttle = _Throttle(bytes_per_second)
        sums = _copy_all(journal, throttle, say)
        _require_same_store(directory, file_system)
        journal = journal.to(State.COPIED, sums)
    if journal.state is State.COPIED:
        _require_unchanged(journal)
        _remove(journal.source)
        if journal.is_linked:
            journal.source.symlink_to(journal.target)
        journal.to(State.DONE)
    return report


def _require_same_store(directory: Path, file_system: int) -> None:
    """Raise `CharacteriseError` when what was mounted there went, and the directory below is left.

    The copies are on the other file system then, or below the place where it was mounted.
    """
    if not directory.is_dir() or directory.stat().st_dev != file_system:
        raise CharacteriseError(
            f"{directory}: the store has gone away meanwhile; the source is complete. Remove what "
            "was copied there since, mount the store again, and give the same command"
        )


def _is_under_way(path: Path, source: Path) -> bool:
    """Whether what stands at the target is of an interrupted migration of this source."""
    if not path.exists():
        return False
    journal = Journal.read(path)
    return journal.source == source and journal.state in (State.COPYING, State.COPIED)


def undo(journal_path: Path, say: Say = lambda _: None) -> Journal:
    """Bring back what a migration moved, verified as on the way there.

    Raises `CharacteriseError` when the target has changed since, with the names.
    """
    journal = Journal.read(journal_path)
    if journal.state is State.UNDONE:
        raise CharacteriseError(f"{journal_path}: this migration was undone before")
    if journal.state is State.DONE:
        if journal.source.is_symlink():
            journal.source.unlink()
        if os.path.lexists(journal.source):
            raise CharacteriseError(f"{journal.source} exists again; nothing is overwritten")
        back = Journal(
            journal.path, journal.target, journal.source, State.COPYING, False, journal.sums
        )
        _require_sums(journal.target, journal.sums)
        _copy_all(back, _Throttle(None), say)
    _remove(journal.target)
    return journal.to(State.UNDONE)


def _begin(report: Report, link: bool) -> Journal:
    if report.journal.exists():
        journal = Journal.read(report.journal)
        if journal.source != report.source:
            raise CharacteriseError(
                f"{report.journal} is of a migration of {journal.source}: undo or delete it first"
            )
        if journal.state in (State.COPYING, State.COPIED):
            return journal
    journal = Journal(report.journal, report.source, report.target, State.COPYING, link, {})
    journal.write()
    return journal


class _Throttle:
    """Sleeps as long as keeps the rate."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second
        self._started = time.monotonic()
        self._sent = 0

    def sent(self, count: int) -> None:
        self._sent += count
        if self._rate is not None:
            ahead = self._sent / self._rate - (time.monotonic() - self._started)
            if ahead > 0:
                time.sleep(ahead)


def _copy_all(journal: Journal, throttle: _Throttle, say: Say) -> dict[str, str]:
    source, target = journal.source, journal.target
    directories = []
    for path in _walk(source):
        there = _below(path, source, target)
        if path.is_dir() and not path.is_symlink():
            there.mkdir(exist_ok=True)
            directories.append((path, there))
        elif path.is_symlink() and not os.path.lexists(there):
            there.symlink_to(path.readlink())
    sums = {}
    for path in _files(source):
        sums[_name(path, source)] = _copy(path, _below(path, source, target), throttle, say)
    # Times of directories last: making files in them changes them.
    for path, there in reversed(directories):
        _copy_attributes(path, there)
    return sums


def _copy(path: Path, there: Path, throttle: _Throttle, say: Say) -> str:
    """Copy a file under another name, read it back, and give it its name."""
    before = path.stat()
    part = there.with_name(f".{there.name}.part")
    digest = hashlib.blake2b()
    with open(path, "rb") as reader, open(part, "wb") as writer:
        while piece := reader.read(_PIECE):
            digest.update(piece)
            writer.write(piece)
            throttle.sent(len(piece))
            say(len(piece))
        writer.flush()
        os.fsync(writer.fileno())
        # Read back what is on the store, not what is in memory.
        os.posix_fadvise(writer.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    written = digest.hexdigest()
    if _sum(part) != written:
        part.unlink()
        raise CharacteriseError(f"{there} reads back unlike {path}: is the store sound?")
    after = path.stat()
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        part.unlink()
        raise CharacteriseError(f"{path} changed while it was copied: stop who writes, and repeat")
    _copy_attributes(path, part)
    if os.geteuid() == 0:
        os.chown(part, before.st_uid, before.st_gid)
    part.replace(there)
    return written


def _copy_attributes(path: Path, there: Path) -> None:
    """As `shutil.copystat`, but for the hint on the tier, which the new place has given already."""
    try:
        names = set(os.listxattr(path)) - {_TIER_HINT}
    except OSError as error:
        if error.errno not in _NOT_KEPT:
            raise
        names = set()
    for name in names:
        try:
            os.setxattr(there, name, os.getxattr(path, name))
        except OSError as error:
            if error.errno not in _NOT_KEPT:
                raise
    status = path.stat()
    there.chmod(stat.S_IMODE(status.st_mode))
    os.utime(there, ns=(status.st_atime_ns, status.st_mtime_ns))


def _require_unchanged(journal: Journal) -> None:
    files = {_name(path, journal.source): path for path in _files(journal.source)}
    if set(files) != set(journal.sums):
        odd = sorted(set(files) ^ set(journal.sums))
        raise CharacteriseError(f"{journal.source}: {odd[0]} came or went during the copy: repeat")
    for path in files.values():
        copied = _below(path, journal.source, journal.target).stat()
        if (path.stat().st_mtime_ns, path.stat().st_size) != (copied.st_mtime_ns, copied.st_size):
            journal.to(State.COPYING)
            raise CharacteriseError(f"{path} changed after it was copied: stop what writes, repeat")


def _require_sums(target: Path, sums: dict[str, str]) -> None:
    files = {_name(path, target): path for path in _files(target)}
    changed = [name for name, path in files.items() if sums.get(name) != _sum(path)]
    changed += sorted(set(sums) - set(files))
    if changed:
        raise CharacteriseError(
            f"{target}: changed since the migration: {', '.join(changed[:5])}; undoing would lose "
            "that: move it back by a migration of its own"
        )


def _walk(top: Path) -> list[Path]:
    if not top.is_dir() or top.is_symlink():
        return [top]
    found = [top]
    for folder, directories, files in os.walk(top):
        found += [Path(folder) / name for name in sorted([*directories, *files])]
    return found


def _files(top: Path) -> list[Path]:
    found = []
    for path in _walk(top):
        kind = path.lstat().st_mode
        if stat.S_ISREG(kind):
            found.append(path)
        elif not (stat.S_ISDIR(kind) or stat.S_ISLNK(kind)):
            raise CharacteriseError(f"{path}: only files, directories and links are moved")
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _below(path: Path, source: Path, target: Path) -> Path:
    return target / path.relative_to(source) if path != source else target


def _name(path: Path, source: Path) -> str:
    return str(path.relative_to(source)) if path != source else "."


def _size(path: Path) -> int:
    return path.stat().st_size


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
