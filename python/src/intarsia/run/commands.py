"""Reads a graph of commands, written in YAML (or in JSON, which is YAML too).

name: words
tasks:
  count:
    command: wc -w < text.txt > count.txt
    inputs: [text.txt]
    outputs: [count.txt]
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import yaml

from intarsia.run.graph import Graph, GraphError, Task, graph_of

_TOP = frozenset({"name", "tasks"})
_FIELDS = frozenset(
    (
        *("command", "inputs", "outputs", "temp", "after"),
        *("stage", "cores", "retries", "timeout_s", "hints"),
    )
)
# A word that a program gets may have so many. (Linux: MAX_ARG_STRLEN, with a zero at its end.)
_COMMAND_BYTES = (128 << 10) - 1
_MERGE = "tag:yaml.org,2002:merge"
# What names of tasks in WfFormat may consist of, and what is safe in names of files.
_NAME = re.compile(r"[0-9A-Za-z_.-]{1,200}")


def read_commands(source: str, text: str) -> Graph:
    """Read a graph of commands; raises GraphError with all that is wrong in it."""
    document = _parse(source, text)
    if not isinstance(document, dict):
        raise GraphError(source, ["a mapping with the key 'tasks' is expected"])
    problems = [_unknown("", key, _TOP) for key in document if key not in _TOP]
    tasks = document.get("tasks")
    if not isinstance(tasks, dict) or not tasks:
        problems.append("field 'tasks': a mapping of names to tasks is expected")
        raise GraphError(source, problems)
    name = document.get("name", _stem(source))
    if not isinstance(name, str) or not name:
        problems.append("field 'name': words are expected")
    found = [_Reader(str(key), fields, problems).task() for key, fields in tasks.items()]
    if problems:
        raise GraphError(source, problems)
    return graph_of(source, name, found)


def _stem(source: str) -> str:
    return os.path.basename(source).split(".")[0] or "workflow"  # noqa: PTH119 - a name to show


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which YAML would keep the last."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._looked_at: set[yaml.Node] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Look at the keys as they are written, before those of merged mappings come to them."""
        if node not in self._looked_at:
            self._looked_at.add(node)
            self._check(node)
        super().flatten_mapping(node)

    def _check(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _marked(key, "a word is expected as a key")
            # `<<` merges another mapping, and has no value of its own.
            name = key.value if key.tag == _MERGE else self.construct_object(key, deep=True)
            if name in seen:
                raise _marked(key, f"the key {name!r} is there twice")
            seen.add(name)


def _marked(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _parse(source: str, text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise GraphError(source, [f"{place}{error.problem}"]) from None
    except (yaml.YAMLError, TypeError) as error:
        raise GraphError(source, [f"is no YAML: {error}"]) from None
    except RecursionError:
        raise GraphError(source, ["is nested too deeply"]) from None


def _unknown(place: str, key: object, known: frozenset[str]) -> str:
    return f"{place}unknown field {key!r}; there are {', '.join(sorted(known))}"


class _Reader:
    """Reads the fields of one task, and says in `problems` what is wrong with them."""

    def __init__(self, name: str, fields: Any, problems: list[str]) -> None:
        self._name = name
        self._fields: Mapping[str, Any] = fields if isinstance(fields, dict) else {}
        self._problems = problems
        self._is_mapping = isinstance(fields, dict)
        if not _NAME.fullmatch(name):
            self._problems.append(
                f"task {name}: its name may have letters, digits, '_', '-' and '.', up to 200"
            )
        if not self._is_mapping:
            self._problems.append(f"task {name}: a mapping with the key 'command' is expected")
        problems += [
            _unknown(f"task {name}: ", key, _FIELDS) for key in self._fields if key not in _FIELDS
        ]

    def task(self) -> Task:
        """Return the task, which is of use only if there are no problems."""
        command = self._fields.get("command")
        if self._is_mapping and (not isinstance(command, str) or not command.strip()):
            self._wrong("command", "a command for the shell is expected")
        elif isinstance(command, str) and not _can_be_told(command):
            self._wrong("command", "it has letters that no command may have")
        elif isinstance(command, str) and len(command.encode()) > _COMMAND_BYTES:
            self._wrong("command", f"it has more than {_COMMAND_BYTES} bytes; have it in a file")
        return Task(
            self._name,
            command if isinstance(command, str) else "",
            tuple(self._files("inputs")),
            tuple(self._files("outputs")),
            tuple(self._words("after")),
            self._text("stage", self._name.rstrip("0123456789").rstrip("_-.") or self._name),
            self._whole("cores", 1, least=1) or 1,
            self._whole("retries", None, least=0),
            self._seconds("timeout_s"),
            self._hints(),
            temp=tuple(self._files("temp")),
        )

    def _wrong(self, field: str, expected: str) -> None:
        self._problems.append(f"task {self._name}: field {field!r}: {expected}")

    def _words(self, field: str) -> list[str]:
        value = self._fields.get(field, [])
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            self._wrong(field, "a list of words is expected")
            return []
        return value

    def _files(self, field: str) -> list[str]:
        words = self._words(field)
        found = list(map(os.path.normpath, words))
        for word, path in zip(words, found, strict=True):
            if word.endswith("/") or not _can_be_told(word) or path in (".", ".."):
                self._wrong(field, f"{word!r} is no name of a file")
        for path in {path for path in found if found.count(path) > 1}:
            self._wrong(field, f"{path} is there twice")
        return found

    def _text(self, field: str, default: str) -> str:
        value = self._fields.get(field, default)
        if not isinstance(value, str) or not value:
            self._wrong(field, "a word is expected")
            return default
        return value

    def _whole(self, field: str, default: int | None, *, least: int) -> int | None:
        value: object = self._fields.get(field, default)
        if value is default:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self._wrong(field, f"a whole number from {least} is expected")
        return default

    def _seconds(self, field: str) -> float | None:
        value = self._fields.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            self._wrong(field, "seconds above 0 are expected")
            return None
        return float(value)

    def _hints(self) -> dict[str, str]:
        value = self._fields.get("hints", {})
        is_right = isinstance(value, dict) and all(
            isinstance(key, str) and isinstance(one, str | int) for key, one in value.items()
        )
        if not is_right:
            self._wrong("hints", "a mapping of names of hints to their values is expected")
            return {}
        return {key: str(one) for key, one in value.items()}


def _can_be_told(text: str) -> bool:
    """Whether a text can be a name of a file, or a part of a command."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
