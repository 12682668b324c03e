"""Which hints pay, by rule: pure functions of what an earlier run was observed to do.

A hint is set only where the bytes that it keeps off the link in somebody's way take longer to move
than setting it takes: `saved / link > files · hint`. What would have happened without hints is
reckoned from where files were made, as the store leaves a file with its maker.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from intarsia.learn.observed import File, Observed, Role
from intarsia.schedule.host import LINK_BYTES_PER_S
from intarsia.units import bytes_text

#: Stands in a hint's value for the task that reads the file.
READER = "{reader}"
_REPLICAS_MAX = 16
# Fewer files than this are read from their hosts in the time of one.
_GROUP_FILES = 3
# After `@` a group has the name of a host, and one call for many hints has them between blanks.
_GROUP = re.compile("[!-?A-~]{1,64}")
_NOTHING = "they are read where they are made, or nobody knows where"


@dataclass(frozen=True, slots=True)
class Costs:
    """What a hint costs and what bytes cost.

    `hint_s`: seconds to set one hint (measured: about 1 ms, see docs/user/run.md). `kept_bytes`:
    the largest file that a host keeps by itself once it has read it.
    """

    link_bytes_per_s: float = LINK_BYTES_PER_S
    hint_s: float = 1e-3
    kept_bytes: float = math.inf


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is learned for the files of a rule: hints, or none, and why.

    `saved_bytes` are those that the hint keeps off the link, of all `files` together; `cost_s` is
    what setting it on all takes.
    """

    role: Role
    files: int
    size_bytes: int
    hints: Mapping[str, str] = field(default_factory=dict)
    saved_bytes: int = 0
    cost_s: float = 0.0
    why: str = ""

    def hints_for(self, readers: Sequence[str]) -> dict[str, str]:
        """Return the hints of one file that the tasks `readers` read."""
        if any(READER in value for value in self.hints.values()) and len(readers) != 1:
            return {}
        return {
            name: value.replace(READER, group_of(readers[0])) if READER in value else value
            for name, value in self.hints.items()
        }


def group_of(reader: str) -> str:
    """Return the name of the group of files that a task reads; names of groups are bounded.

    >>> group_of("merge-7"), group_of("to@fro")
    ('merge-7', '6eac7673d14e3000')
    """
    if _GROUP.fullmatch(reader):
        return reader
    return hashlib.blake2b(reader.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class _Gain:
    """What a hint would bring."""

    hints: Mapping[str, str]
    saved_bytes: float
    why: str


def lessons_of(runs: Iterable[Observed], costs: Costs) -> dict[Role, Lesson]:
    """Return a lesson for each rule that was observed; of several runs the last one counts."""
    found = {}
    for run in runs:
        roles: dict[Role, list[File]] = defaultdict(list)
        for file in run.files:
            roles[file.role].append(file)
        for role, files in roles.items():
            found[role] = _lesson(role, files, run.kept.get(role, {}), costs)
    return found


def _lesson(role: Role, files: Sequence[File], kept: Mapping[str, str], costs: Costs) -> Lesson:
    size_bytes = sum(file.size_bytes for file in files)
    if not role.readers:
        return Lesson(role, len(files), size_bytes, why="no task reads them")
    gains = [gain(files, kept, costs) for gain in _GAINS]
    best = max(gains, key=lambda gain: gain.saved_bytes)
    cost_s = costs.hint_s * len(files) * max(1, len(best.hints))
    saved_s = best.saved_bytes / costs.link_bytes_per_s
    pays = saved_s > cost_s
    why = best.why
    if not pays and best.saved_bytes:
        why += (
            f", which the link moves in {_milliseconds(saved_s)}; "
            f"setting the hint takes {_milliseconds(cost_s)}"
        )
    elif not pays:
        why = "; ".join(dict.fromkeys(gain.why for gain in gains if gain.why)) or _NOTHING
    hints = best.hints if pays else {}
    return Lesson(role, len(files), size_bytes, hints, round(best.saved_bytes), cost_s, why)


def _local(files: Sequence[File], kept: Mapping[str, str], costs: Costs) -> _Gain:
    """Files that lay elsewhere than at their maker, without having been asked to lie there."""
    hints = {"place": "local"}
    known = [file for file in files if file.made_on and file.lay_on]
    if any(len(file.reads) > 1 for file in files):
        return _Gain(hints, 0, "")
    if kept.get("place") == "local" and all(file.made_on in file.lay_on for file in known):
        saved = sum(file.size_bytes for file in known)
        return _Gain(hints, saved, f"since it is set {bytes_text(saved)} lie where they are made")
    away = [file for file in known if file.made_on not in file.lay_on]
    if any(file.hints.get("place") == "local" for file in away):
        return _Gain(hints, 0, "they do not stay where they are made though asked to")
    if any({"place", "pattern"} & set(file.hints) for file in away):
        return _Gain(hints, 0, "")  # they lie where they were asked to
    if not away:
        said = "they lie where they are made" if known else "nobody knows where they lay"
        return _Gain(hints, 0, f"{said} without a hint")
    saved = sum(file.size_bytes for file in away)
    return _Gain(hints, saved, f"{bytes_text(saved)} went to other hosts than that of their maker")


def _gathered(files: Sequence[File], kept: Mapping[str, str], costs: Costs) -> _Gain:
    """Files of several makers for one reader: they can come to it while others are being made."""
    groups: dict[str, list[File]] = defaultdict(list)
    for file in files:
        if len(file.reads) == 1 and file.made_on:
            groups[file.reads[0].task].append(file)
    saved = 0.0
    for group in groups.values():
        if len(group) < _GROUP_FILES or len({file.maker for file in group}) < 2:
            continue
        made: Counter[str] = Counter()
        for file in group:
            made[file.made_on] += file.size_bytes
        remote = sum(made.values()) - max(made.values())
        saved += min(remote, _window_s(group) * costs.link_bytes_per_s)
    why = f"{bytes_text(saved)} can come to the reader while others are being made" if saved else ""
    return _Gain({"place": f"collocate:{READER}"}, saved, why)


def _window_s(group: Sequence[File]) -> float:
    """Seconds between the first file of a group and the last; unknown ones are no hindrance."""
    times = [file.made_s for file in group if file.made_s is not None]
    return max(times) - min(times) if len(times) == len(group) else math.inf


def _copied(files: Sequence[File], kept: Mapping[str, str], costs: Costs) -> _Gain:
    """Files that several hosts read: as many copies as are made before the first of them begins."""
    copies, is_read_elsewhere = [], False
    for file in files:
        elsewhere = {read.host for read in file.reads if read.host} - {file.made_on}
        is_read_elsewhere |= bool(elsewhere) and len(file.reads) > 1
        began = [read.began_s for read in file.reads if read.began_s is not None]
        if len(file.reads) < 2 or not elsewhere or not file.made_on or file.made_s is None:
            copies.append(0)
            continue
        gap_s = max(0.0, min(began, default=file.made_s) - file.made_s)
        fitting = int(gap_s * costs.link_bytes_per_s / max(1, file.size_bytes))
        copies.append(min(fitting, len(elsewhere), _REPLICAS_MAX - 1))
    each = min(copies)
    if not each:
        why = "they are read before a copy could be made" if is_read_elsewhere else ""
        return _Gain({"replicas": "2"}, 0, why)
    saved = each * sum(file.size_bytes for file in files)
    why = f"{bytes_text(saved)} of copies are made before other hosts begin to read"
    return _Gain({"replicas": str(1 + each)}, saved, why)


def _reused(files: Sequence[File], kept: Mapping[str, str], costs: Costs) -> _Gain:
    """Files that a host reads again, and that are too large for it to keep them by itself."""
    saved, again = 0, 0
    for file in files:
        reads = Counter(read.host for read in file.reads if read.host and file.made_on)
        reads.pop(file.made_on, None)
        repeated = sum(count - 1 for count in reads.values())
        again += repeated
        if file.size_bytes > costs.kept_bytes:
            saved += repeated * file.size_bytes
    if saved:
        why = f"hosts read {bytes_text(saved)} again, of files that they do not keep by themselves"
    else:
        why = "hosts keep what they read again" if again else ""
    return _Gain({"cache": "keep"}, saved, why)


_GAINS: tuple[Callable[[Sequence[File], Mapping[str, str], Costs], _Gain], ...] = (
    _local,
    _gathered,
    _copied,
    _reused,
)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
