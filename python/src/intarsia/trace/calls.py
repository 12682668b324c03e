"""Lines of strace, as system calls: parted ones joined, arguments split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from intarsia.trace.errors import TraceError

RECORD = "strace -f -ttt -T -y -e trace=%file,%desc,%process -o LOG COMMAND"
_LINE = re.compile(
    r"^(?:\[pid\s+(?P<told>\d+)\]\s+|(?P<pid>\d+)\s+)?(?P<at>\d{6,}\.\d+)\s+(?P<rest>.*)$"
)
_UNTIMED = re.compile(r"^(?:\[pid\s+\d+\]\s+|\d+\s+)?(?:\d\d:\d\d:\d\d\S*\s+)?\w+\(")
_BEGUN = re.compile(r"^(?P<name>\w+)\((?P<arguments>.*?)\s*<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^<\.\.\. (?P<name>\w+) resumed>\s?(?P<rest>.*)$")
_WHOLE = re.compile(
    r"^(?P<name>\w+)\((?P<arguments>.*)\)\s+=\s+(?P<result>-?\d+|0x[0-9a-f]+|\?)"
    r"(?P<told>.*?)(?:\s+<(?P<took>\d+\.\d+)>)?$"
)
_ENDED = re.compile(r"^\+\+\+ (exited with|killed by) ")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Call:
    """A system call, or the end of a process, which has no name. `result` is -1 where it failed."""

    line: int
    pid: int
    at_s: float
    name: str
    arguments: tuple[str, ...]
    result: int
    took_s: float
    told: str = ""


def calls(source: str, text: str, warnings: list[str]) -> Iterator[Call]:
    """Read a log; raises TraceError for a line that is none of strace's."""
    begun: dict[int, tuple[int, float, str, str]] = {}
    lines = text.split("\n")
    if lines and lines[-1]:
        warnings.append(f"{source}:{len(lines)}: the log ends within a line, which is left out")
    for number, line in enumerate(lines[:-1], start=1):
        if not line.strip() or line.startswith("strace: "):
            continue
        found = _LINE.match(line)
        if found is None:
            raise _strange(source, number, line)
        pid = int(found["told"] or found["pid"] or 0)
        at_s, rest = float(found["at"]), found["rest"]
        if rest.startswith("---"):
            continue
        if _ENDED.match(rest):
            yield Call(number, pid, at_s, "", (), 0, 0.0)
            continue
        if one := _BEGUN.match(rest):
            begun[pid] = (number, at_s, one["name"], one["arguments"])
            continue
        if one := _RESUMED.match(rest):
            if pid not in begun:
                continue
            _, since_s, name, before = begun.pop(pid)
            rest, at_s = f"{name}({before}{one['rest']}", since_s
        yield _call(source, number, pid, at_s, rest)
    for at, _, name, _ in begun.values():
        warnings.append(f"{source}:{at}: {name} never returned; it is left out")


def _call(source: str, number: int, pid: int, at_s: float, rest: str) -> Call:
    found = _WHOLE.match(rest)
    if found is None:
        raise _strange(source, number, rest)
    if found["took"] is None and found["result"] != "?":
        raise TraceError(
            source, f"line {number}", "no time in the call", f"record with -T: {RECORD}"
        )
    result = -1 if found["result"] == "?" else int(found["result"], 0)
    took_s = float(found["took"] or 0.0)
    return Call(
        number,
        pid,
        at_s,
        found["name"],
        tuple(_split(found["arguments"])),
        result,
        took_s,
        found["told"].strip(),
    )


def _strange(source: str, number: int, line: str) -> TraceError:
    place = f"line {number}"
    if _UNTIMED.match(line):
        return TraceError(source, place, "no Unix time", f"record with -ttt: {RECORD}")
    return TraceError(source, place, f"no line of strace: {line[:60]!r}", f"record with {RECORD}")


def _split(text: str) -> Iterator[str]:
    """Split arguments at commas that stand in no string, bracket or path of a descriptor."""
    depth, is_text, start = 0, False, 0
    skip = False
    for at, letter in enumerate(text):
        if skip:
            skip = False
        elif letter == "\\" and is_text:
            skip = True
        elif letter == '"':
            is_text = not is_text
        elif is_text:
            continue
        elif letter in "({[<":
            depth += 1
        elif letter in ")}]>":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def text_of(argument: str) -> str:
    r"""Return the text that stands in quotes; empty where there is none.

    >>> text_of('"/a\\tb"...'), text_of("NULL"), text_of('"\\303\\244"')
    ('/a\tb', '', 'ä')
    """
    if not argument.startswith('"'):
        return ""
    body = argument[1 : argument.rfind('"')]
    plain = re.sub(
        r"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", lambda found: _letter(found[1]), body, flags=re.DOTALL
    )
    return plain.encode("latin-1", "replace").decode("utf-8", "backslashreplace")


def _letter(escape: str) -> str:
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    if escape[0] == "x" and len(escape) == 3:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, escape)


def descriptor(argument: str) -> tuple[int | None, str]:
    """Return the number and the path of a descriptor; None is the working directory.

    >>> descriptor("3</tmp/a>"), descriptor("4"), descriptor("AT_FDCWD</tmp>")
    ((3, '/tmp/a'), (4, ''), (None, '/tmp'))
    """
    found = re.match(r"^(-?\d+|AT_FDCWD)(?:<(.*)>)?$", argument)
    if found is None:
        return -1, ""
    number = None if found[1] == "AT_FDCWD" else int(found[1])
    return number, (found[2] or "").removesuffix(" (deleted)")
