"""What was learned, as lines for a person and as an object for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from intarsia.learn.lessons import Lesson
from intarsia.units import bytes_text


def row_of(lesson: Lesson) -> tuple[str, ...]:
    """Return what a table shows of a lesson: rule, files, bytes, hints and why."""
    return (
        str(lesson.role),
        str(lesson.files),
        bytes_text(lesson.size_bytes),
        hints_text(lesson),
        lesson.why,
    )


#: Heads of the table.
HEADS = ("rule", "files", "bytes", "hint", "why")


def hints_text(lesson: Lesson) -> str:
    """Return the hints of a lesson as words, `-` for none."""
    return " ".join(f"{name}={value}" for name, value in lesson.hints.items()) or "-"


def object_of(lesson: Lesson) -> dict[str, Any]:
    """Return what `--json` tells of a lesson; bytes and seconds, as the names say."""
    return {
        "maker": lesson.role.maker,
        "names": lesson.role.names,
        "readers": list(lesson.role.readers),
        "files": lesson.files,
        "size_bytes": lesson.size_bytes,
        "hints": dict(lesson.hints),
        "saved_bytes": lesson.saved_bytes,
        "cost_s": round(lesson.cost_s, 6),
        "why": lesson.why,
    }


def in_order(lessons: Iterable[Lesson]) -> list[Lesson]:
    """Return lessons with those first that save most."""
    return sorted(lessons, key=lambda lesson: (-lesson.saved_bytes, lesson.role))
