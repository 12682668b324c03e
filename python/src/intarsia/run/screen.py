"""What a terminal shows of a run: what its page shows, as far as there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, OverflowMethod, RenderableType
from rich.table import Table
from rich.text import Text

from intarsia.units import bytes_text

# A narrower terminal has no columns for numbers beside names.
_WIDE = 64
_BAR_LEAST, _BAR_MOST = 8, 40
_MOST_HOSTS = 16
# A table with less than its head, a row, and how many more there are says nothing.
_FEWEST = 3
_GAP = 2


class _Look(NamedTuple):
    """How tasks in a state are drawn in the bar, also without colours and beyond ASCII."""

    state: str
    sign: str
    ascii_sign: str
    style: str


_LOOKS = (
    _Look("done", "█", "#", "green"),
    _Look("running", "▓", "+", "blue"),
    _Look("ready", "▒", "-", "cyan"),
    _Look("failed", "×", "x", "red"),
    _Look("blocked", "·", "_", "red"),
    _Look("waiting", "░", ".", "bright_black"),
)
Row = Sequence[Text]


@dataclass(frozen=True)
class Screen:
    """A picture, as `picture_of` makes it; leaves a line of the terminal for messages."""

    picture: dict[str, Any]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw it for the terminal as it is now; the last line is empty, for the cursor."""
        width, is_ascii = options.max_width, options.ascii_only
        # The sign that stands for what is cut off is not of ASCII.
        overflow: OverflowMethod = "crop" if is_ascii else "ellipsis"
        room = max(1, console.height - 2)
        head = [_progress(self.picture, width, is_ascii), *_counts(self.picture)][:room]
        for line in head:
            line.no_wrap, line.overflow = True, overflow
            yield line
        room -= len(head)
        is_wide = width >= _WIDE
        parts = [_hosts(self.picture, is_wide), _ready(self.picture, is_wide), _waits(self.picture)]
        parts = [part for part in parts if part.rows]
        while parts and room < _FEWEST * len(parts):
            parts.pop()
        shares = _shares(room, [part.lines for part in parts])
        for part, lines in zip(parts, shares, strict=True):
            yield from part.drawn(lines, width, overflow)
        yield Text()


@dataclass(frozen=True)
class _Part:
    """A table of the first rows of those that there are, which may be `known` to be more."""

    heads: Sequence[str]
    rows: Sequence[Row]
    known: int
    most: int = 8

    @property
    def count(self) -> int:
        """How many rows there are."""
        return max(self.known, len(self.rows))

    @property
    def lines(self) -> int:
        """Lines of the terminal that it takes, its head among them."""
        return min(self.most, self.count) + 1

    def drawn(self, lines: int, width: int, overflow: OverflowMethod) -> Iterator[RenderableType]:
        """Draw what there is room for, and say how many rows are left out."""
        fits = self.count <= min(lines - 1, len(self.rows))
        shown = self.rows[: lines - 1 if fits else lines - 2]
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for number, head in enumerate(self.heads):
            # Names, then numbers, and last what may be long.
            is_last = number == len(self.heads) - 1
            wide = max(len(head), *(row[number].cell_len for row in shown))
            wide = max(1, min(wide, width if is_last else width // 3))
            justify: Any = "left" if number == 0 or is_last else "right"
            table.add_column(head, width=wide, justify=justify, no_wrap=True, overflow=overflow)
            width -= wide + _GAP
        for row in shown:
            table.add_row(*row)
        yield table
        if not fits:
            left_out = f"and {self.count - len(shown):,} more"
            yield Text(left_out, style="dim", no_wrap=True, overflow=overflow)


def _shares(room: int, wanted: Sequence[int]) -> list[int]:
    """Deal `room` lines out, one to each in turn, until all have what they want.

    >>> _shares(7, [2, 9]), _shares(7, [])
    ([2, 5], [])
    """
    shares = [0] * len(wanted)
    while room > 0 and shares != list(wanted):
        for number, most in enumerate(wanted):
            if shares[number] < most and room > 0:
                shares[number] += 1
                room -= 1
    return shares


def _progress(picture: dict[str, Any], width: int, is_ascii: bool) -> Text:
    """The name, a bar, and how many tasks are done since when."""
    tasks: dict[str, int] = picture["tasks"]
    elapsed = timedelta(seconds=int(picture["elapsed_s"]))
    told = f" {tasks['done']:,} of {sum(tasks.values()):,} done, {elapsed}"
    line = Text(_plain(picture["workflow"]), "bold")
    line.truncate(max(1, width - len(told)), overflow="crop")
    room = min(_BAR_MOST, width - line.cell_len - len(told) - 1)
    if room >= _BAR_LEAST:
        line = Text.assemble(line, " ", _bar(tasks, room, is_ascii))
    return Text.assemble(line, told)


def _bar(tasks: dict[str, int], width: int, is_ascii: bool) -> Text:
    bar = Text()
    total, until = sum(tasks.values()) or 1, 0
    for look in _LOOKS:
        until += tasks[look.state]
        length = round(width * until / total) - bar.cell_len
        bar.append((look.ascii_sign if is_ascii else look.sign) * length, look.style)
    return bar


def _counts(picture: dict[str, Any]) -> Iterator[Text]:
    """What tasks are at, and how much they have read from where."""
    counts = [
        Text(f"{picture['tasks'][look.state]:,} {look.state}", look.style)
        for look in _LOOKS[1:]
        if picture["tasks"][look.state]
    ]
    yield Text(", ").join(counts)
    local, remote, ahead = (picture["bytes"][key] for key in ("local", "remote", "copied_ahead"))
    if local + remote:
        here = f"{bytes_text(local)} where tasks ran ({100 * local / (local + remote):.0f} %)"
        copied = f"; {bytes_text(ahead)} copied ahead" if ahead else ""
        yield Text(f"read: {here}, {bytes_text(remote)} from other hosts{copied}")


def _hosts(picture: dict[str, Any], is_wide: bool) -> _Part:
    numbers = ["free", "done", "local", "remote"] if is_wide else []
    rows = []
    for one in picture["hosts"][:_MOST_HOSTS]:
        name = Text(_plain(one["host"]))
        if not one["is_there"]:
            name.append(" gone", "red")
        sizes = (bytes_text(one["local_bytes"]), bytes_text(one["remote_bytes"]))
        cells = [f"{one['free_slots']:,}", f"{one['done']:,}", *sizes] if is_wide else []
        rows.append([name, *map(Text, cells), _running(one)])
    return _Part(["host", *numbers, "runs now"], rows, len(picture["hosts"]), _MOST_HOSTS)


def _running(host: dict[str, Any]) -> Text:
    """What a host runs, those first that have run for longest, and copies ahead."""
    longest = sorted(host["running"], key=lambda one: -one["for_s"])
    said = [f"{_plain(one['task'])} {_time(one['for_s'])}" for one in longest]
    count = f"{len(said)}: " if len(said) > 1 else ""
    text = Text(count + ", ".join(said) if said else "-")
    if host["copies_for"]:
        text.append(f"; copies ahead for {_plain(host['copies_for'])}", "dim")
    return text


def _ready(picture: dict[str, Any], is_wide: bool) -> _Part:
    """Tasks that wait for a host, for how long, and where most of their input is."""
    rows = []
    for one in picture["ready"]:
        on = Text("-")
        if one["host"] is not None:
            part = f"{bytes_text(one['host_bytes'])} of {bytes_text(one['input_bytes'])}"
            on = Text(f"{part} on {_plain(one['host'])}")
        since = [Text(_time(one["for_s"]))] if is_wide else []
        rows.append([Text(_plain(one["task"])), *since, on])
    heads = ["ready", *(["for"] if is_wide else []), "most of its input"]
    return _Part(heads, rows, picture["tasks"]["ready"])


def _waits(picture: dict[str, Any]) -> _Part:
    """Tasks that wait for others."""
    rows = []
    for one in picture["blocked_by"]:
        more = one["needs"] - len(one["for"])
        others = ", ".join(map(_plain, one["for"])) + (f" and {more:,} more" if more else "")
        rows.append([Text(_plain(one["task"])), Text(others)])
    return _Part(["waits", "for"], rows, picture["tasks"]["waiting"])


def _time(seconds: float) -> str:
    """Write how long something has taken.

    >>> _time(59.4), _time(3700)
    ('59 s', '1:01:40')
    """
    return f"{seconds:.0f} s" if seconds < 59.5 else str(timedelta(seconds=int(seconds)))


def _plain(text: str) -> str:
    r"""Make one line of a name that may hold anything.

    >>> _plain("a\x1b[2Jb")
    'a?[2Jb'
    """
    return "".join(one if one.isprintable() else "?" for one in text)
