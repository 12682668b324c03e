"""The examples of a Markdown page, and whether what a program printed has the shape that is shown.

Comments that Markdown hides steer how examples are run. They stand directly above a block:

    <!-- before: COMMANDS -->    done before the block, to bring about what the page takes for given
    <!-- not run: REASON -->     the block cannot run in a test, for this reason
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

#: The languages of blocks that are commands; all others are files, formats and listings.
COMMANDS = ("sh", "bash", "shell", "console", "python")

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)\s*$")
_COMMENT = re.compile(r"<!--\s*(?P<kind>before|not run):\s*(?P<text>.*?)\s*-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block of commands."""

    page: str
    line: int
    language: str
    text: str
    before: str = ""
    not_run: str | None = None

    @property
    def place(self) -> str:
        """Where it stands, as editors take it."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a `console` block, and what is shown below it."""

    text: str
    shown: tuple[str, ...]


def blocks_of(path: Path, name: str) -> list[Block]:
    """All blocks of commands of a page."""
    lines = path.read_text().split("\n")
    found = []
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        indent = len(fence["indent"])
        end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == "```")
        if fence["language"] in COMMANDS:
            text = "\n".join(line[indent:] for line in lines[at + 1 : end]) + "\n"
            before, not_run = _comments_above(lines, at)
            found.append(Block(name, at + 1, fence["language"], text, before, not_run))
        at = end + 1
    return found


def _comments_above(lines: list[str], at: int) -> tuple[str, str | None]:
    """What the comments that end directly above line `at` say."""
    start = at
    while start > 0 and lines[start - 1].rstrip().endswith("-->"):
        start -= 1
        while not lines[start].lstrip().startswith("<!--"):
            start -= 1
    before, not_run = [], None
    for comment in _COMMENT.finditer("\n".join(lines[start:at])):
        if comment["kind"] == "before":
            before.append(comment["text"])
        else:
            not_run = " ".join(comment["text"].split())
    return "\n".join(before), not_run


def commands_of(block: Block) -> list[Command]:
    """The commands of a `console` block: `$ ` begins one, `> ` or a backslash goes on with it."""
    commands: list[tuple[str, list[str]]] = []
    goes_on = False
    for line in block.text.rstrip("\n").split("\n"):
        if goes_on:
            text, shown = commands.pop()
            commands.append((f"{text}\n{line}", shown))
        elif line.startswith("$ "):
            commands.append((line[2:], []))
        elif line.startswith("> ") and commands and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line[2:]}", [])
            continue
        else:
            assert commands, f"{block.place}: output before the first command: {line!r}"
            commands[-1][1].append(line)
            continue
        goes_on = commands[-1][0].endswith("\\")
    return [Command(text, tuple(shown)) for text, shown in commands]


def shows_failure(command: Command) -> bool:
    """Whether the shown output is that of a program that failed."""
    return any(re.match(r"(error|[a-z]+): .*", line) for line in command.shown)


_SAME = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d+ +[\d:]+"), "TIME"),
    (re.compile(r"\b(ext4|xfs|btrfs|tmpfs|overlay|zfs)\b"), "FILESYSTEM"),
    (re.compile(r"\b\d+\.\d+\.\d+[\w.-]*"), "VERSION"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"), "ID"),
    (re.compile(r"\b\d[\d.,]*( ?([KMGT]i?B?|B|s|ms|us|ns|m|h))*\b%?"), "N"),
    (re.compile(r"\bN( N)+\b"), "N"),
    (re.compile(r"Passthrough is (not )?in force: .*"), "PASSTHROUGH"),
    (re.compile(r"passthrough (yes|no) \(.*\)"), "PASSTHROUGH"),
    # In a moment one thing more or less is final.
    (re.compile(r"\b[+!x ]\s"), " "),
    (re.compile(r"\(nearly full\) ?"), ""),
    (re.compile(r"\b(\w{4,})s\b"), r"\1"),
)

#: What a program says of its progress when that takes longer than usual.
_PROGRESS = re.compile(r"^[\d.]+ %, .* left$")


def shape(line: str) -> str:
    """A line without what differs from run to run: numbers, times, sizes, versions, columns."""
    line = " ".join(line.split())
    for pattern, stand_in in _SAME:
        line = pattern.sub(stand_in, line)
    return " ".join(line.split())


def difference(shown: tuple[str, ...], printed: str) -> str | None:
    """Say how `printed` differs in shape from what is shown.

    `...` stands for any lines, and so does a command that is shown without output. What several
    hosts say at once comes in any order.
    """
    if not shown:
        return None
    wanted = [shape(line) for line in shown if line.strip()]
    lines = [line for line in printed.split("\n") if line.strip() and not _PROGRESS.search(line)]
    got = [shape(line) for line in lines]
    if _matches(wanted, got) or sorted(wanted) == sorted(got):
        return None
    return "\n  ".join(["shown:", *wanted]) + "\n" + "\n  ".join(["printed:", *got])


def _matches(wanted: list[str], got: list[str]) -> bool:
    if not wanted:
        return not got
    if wanted[0] == "...":
        return any(_matches(wanted[1:], got[n:]) for n in range(len(got) + 1))
    return bool(got) and wanted[0] == got[0] and _matches(wanted[1:], got[1:])
