"""Workloads of our own form, read back: to join them with newer records, or to export them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from intarsia.trace.errors import TraceError
from intarsia.trace.workload import Operation, Task, Workload

_FORM = "intarsia-workload"
_HELP = "`intarsia predict WORKLOAD` says what else is wrong in it"


def is_native(document: Any) -> bool:
    """Whether JSON that was read claims to be a workload of ours.

    >>> is_native({"format": "intarsia-workload"}), is_native({"name": "x"}), is_native(None)
    (True, False, False)
    """
    return isinstance(document, dict) and document.get("format") == _FORM


def read_native(source: str, document: Any) -> Workload:
    """Make a workload of the JSON of one; raises TraceError that names the field."""
    root = _Field(source, "", document)
    if root.text("format", "") != _FORM:
        raise TraceError(source, "field 'format'", f"{_FORM!r} is expected")
    if root.value("version", 0) != 1:
        raise TraceError(source, "field 'version'", "only version 1 is known")
    made = Workload(root.text("name", "workload"), [])
    for file in root.items("files"):
        name = file.text("name")
        made.files[name] = int(file.number("size_bytes"))
        if hints := file.value("hints", {}):
            made.hints[name] = hints
    made.tasks = [_task(task, made.files) for task in root.items("tasks")]
    return made


@dataclass(frozen=True, slots=True)
class _Field:
    """A value of a document, with the place where it stands."""

    source: str
    place: str
    content: Any

    def value(self, name: str, default: Any = None) -> Any:
        if not isinstance(self.content, dict):
            raise self.refuse("", "an object is expected")
        found = self.content.get(name, default)
        if found is None:
            raise self.refuse(name, "is missing")
        return found

    def text(self, name: str, default: str | None = None) -> str:
        found = self.value(name, default)
        if not isinstance(found, str):
            raise self.refuse(name, f"{found!r} is no text")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        found = self.value(name, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or found < 0:
            raise self.refuse(name, f"{found!r} is no number of 0 or more")
        return found

    def items(self, name: str, *, may_lack: bool = False) -> Iterator[_Field]:
        found = self.value(name, [] if may_lack else None)
        if not isinstance(found, list):
            raise self.refuse(name, "a list is expected")
        for number, one in enumerate(found):
            yield _Field(self.source, f"{self.place}{name}[{number}].", one)

    def refuse(self, name: str, what: str) -> TraceError:
        return TraceError(self.source, f"field '{self.place}{name}'", what, _HELP)


def _task(field: _Field, sizes: dict[str, int]) -> Task:
    name = field.text("name")
    if "operations" in field.content:
        operations = [_operation(one, sizes) for one in field.items("operations")]
    else:
        operations = list(_simple(field, sizes))
    after = tuple(one.content for one in field.items("after", may_lack=True))
    return Task(
        name,
        field.text("stage", name),
        operations,
        after,
        int(field.number("slots", 1)),
        overhead_s=field.number("overhead_seconds", 0.0),
    )


def _simple(field: _Field, sizes: dict[str, int]) -> Iterator[Operation]:
    """Files read whole, a computation, files written whole."""
    for one in field.items("reads", may_lack=True):
        file = one.content
        yield Operation("open", file)
        yield Operation("read", file, 0, _size(one, file, sizes))
        yield Operation("close", file)
    if seconds := field.number("compute_seconds", 0.0):
        yield Operation("compute", seconds=seconds)
    for one in field.items("writes", may_lack=True):
        file = one.content
        yield Operation("write", file, 0, _size(one, file, sizes))
        yield Operation("close", file)


def _operation(field: _Field, sizes: dict[str, int]) -> Operation:
    if "compute_seconds" in field.content:
        return Operation("compute", seconds=field.number("compute_seconds"))
    kind = next((kind for kind in ("open", "read", "write", "close") if kind in field.content), "")
    if not kind:
        raise field.refuse("", "is no operation: open, read, compute_seconds, write, close")
    file = field.text(kind)
    size = _size(field, file, sizes)
    if kind in ("open", "close"):
        return Operation(kind, file)
    offset = int(field.number("offset_bytes", 0))
    return Operation(kind, file, offset, int(field.number("size_bytes", max(0, size - offset))))


def _size(field: _Field, file: Any, sizes: dict[str, int]) -> int:
    if not isinstance(file, str) or file not in sizes:
        raise field.refuse("", f"no file {file!r} is described")
    return sizes[file]
