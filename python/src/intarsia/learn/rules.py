"""Lessons as rules of a store, for engines that set no hints: `intarsia hint rule add`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from intarsia.learn.lessons import READER, Lesson
from intarsia.learn.observed import File, Role


def rules_of(files: Iterable[File], lessons: Mapping[Role, Lesson]) -> dict[Role, str]:
    """Return a rule for each lesson with hints whose files can be told by the end of their names.

    What files of another rule are called alike cannot be told apart, and gets none.
    """
    names: dict[Role, set[str]] = {}
    for file in files:
        names.setdefault(file.role, set()).add(os.path.basename(file.name))  # noqa: PTH119 - a name
    found = {}
    for role, lesson in lessons.items():
        others = {name for other, some in names.items() if other != role for name in some}
        ending = _ending(names.get(role, set()))
        if lesson.hints and ending and not any(name.endswith(ending) for name in others):
            hints = (f"{name}={value}" for name, value in lesson.hints.items())
            found[role] = f"*{ending} {' '.join(hints)}".replace(READER, role.readers[0])
    return found


def _ending(names: Iterable[str]) -> str:
    """Return the longest end that all names have, from a full stop on.

    >>> _ending(["a.txt.clean", "b.txt.clean"]), _ending(["a.clean"]), _ending(["x", "y"])
    ('.txt.clean', '.clean', '')
    """
    common = os.path.commonprefix([name[::-1] for name in names])[::-1]  # noqa: RUF071 - letters
    at = common.find(".")
    return common[at:] if at >= 0 else ""
