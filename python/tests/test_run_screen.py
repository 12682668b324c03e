"""What a terminal shows of a run."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from intarsia.run.moment import picture_of
from intarsia.run.screen import Screen
from rich.cells import cell_len
from rich.console import Console
from test_run_live import in_the_middle


def drawn(picture: dict[str, Any], width: int, height: int, encoding: str = "utf-8") -> list[str]:
    """The lines of a terminal that shows a picture."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, height=height, force_terminal=True, no_color=True)
    lines = console.render_lines(Screen(picture), pad=False)
    return ["".join(part.text for part in line).rstrip() for line in lines]


def large(chance: random.Random) -> dict[str, Any]:
    """A picture of many hosts and tasks, some of them with names that nobody expects."""

    def name() -> str:
        return chance.choice(["t", "task\x1b[2J", "名前", "a\nb", "long" * 30]) + str(
            chance.randint(0, 9999)
        )

    states = ["waiting", "ready", "running", "done", "failed", "blocked"]
    return {
        "workflow": name(),
        "schedule": "wow",
        "elapsed_s": chance.random() * 1e6,
        "tasks": {state: chance.choice([0, 3, 12_345]) for state in states},
        "bytes": {"local": chance.choice([0, 10**12]), "remote": 1, "copied_ahead": 10**9},
        "hosts": [
            {
                "host": name(),
                "is_there": chance.random() < 0.9,
                "free_slots": chance.randint(0, 256),
                "running": [
                    {"task": name(), "for_s": chance.random() * 1e5}
                    for _ in range(chance.choice([0, 1, 100]))
                ],
                "done": chance.randint(0, 99_999),
                "local_bytes": chance.randint(0, 10**13),
                "remote_bytes": chance.randint(0, 10**13),
                "copies_for": chance.choice([None, name()]),
            }
            for _ in range(chance.choice([0, 1, 5, 300]))
        ],
        "ready": [
            {
                "task": name(),
                "for_s": chance.random() * 1e4,
                "host": chance.choice([None, name()]),
                "host_bytes": 1,
                "input_bytes": 2,
            }
            for _ in range(chance.choice([0, 2, 25]))
        ],
        "blocked_by": [
            {"task": name(), "needs": 900, "for": [name() for _ in range(4)]}
            for _ in range(chance.choice([0, 2, 25]))
        ],
    }


def test_hosts_bytes_and_what_waits_for_what_are_shown(tmp_path: Path) -> None:
    lines = drawn(picture_of(in_the_middle(tmp_path)), 80, 24)
    assert lines == [
        "words & <sums> ████████▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░ 1 of 5 done, 0:00:10",
        "1 running, 2 ready, 1 waiting",
        "read: 2 kB where tasks ran (40 %), 3 kB from other hosts",
        "host  free  done  local  remote  runs now",
        "n1       1     1   2 kB    3 kB  -",
        "n2       1     0    0 B     0 B  make-<2> 7 s",
        "ready  for  most of its input",
        "use-1  8 s  7 MB of 9 MB on n1",
        "use-2  8 s  7 MB of 9 MB on n1",
        "waits  for",
        "sum    make-<2>, use-1, use-2",
        "",
    ]


def test_the_example_of_the_page_is_what_is_drawn() -> None:
    def task(name: str, for_s: int) -> dict[str, Any]:
        return {"task": name, "for_s": for_s}

    def host(number: int, done: int, local: float, remote: float, *runs: Any) -> dict[str, Any]:
        return {
            "host": f"node0{number}",
            "is_there": True,
            "free_slots": 4 - len(runs),
            "running": list(runs),
            "done": done,
            "local_bytes": local * 1e6,
            "remote_bytes": remote * 1e6,
            "copies_for": "mDiffFit_12" if number == 3 else None,
        }

    def ready(number: int, for_s: int, host_bytes: float) -> dict[str, Any]:
        whole = {"host_bytes": host_bytes, "input_bytes": 8_200_000}
        return {"task": f"mDiffFit_{number}", "for_s": for_s, "host": f"node0{number - 9}", **whole}

    fits = [task(f"mDiffFit_{number}", for_s) for number, for_s in ((3, 2), (4, 2), (9, 1))]
    more = [task(f"mDiffFit_{number}", for_s) for number, for_s in ((5, 2), (6, 1), (7, 1))]
    waits = {20: ["mProject_20"], 21: ["mProject_18", "mProject_20"]}
    picture = {
        "workflow": "montage",
        "elapsed_s": 72.4,
        "tasks": {"done": 41, "running": 9, "ready": 12, "failed": 0, "blocked": 0, "waiting": 41},
        "bytes": {"local": 160e6, "remote": 91.2e6, "copied_ahead": 0},
        "hosts": [
            host(1, 14, 61, 24.1, task("mProject_17", 12), *fits),
            host(2, 15, 52, 30.9, task("mProject_18", 11), *more),
            host(3, 12, 47, 36.2, task("mProject_20", 9)),
        ],
        "ready": [ready(10, 3, 4_100_000), ready(11, 2, 8_200_000)],
        "blocked_by": [
            {"task": f"mDiffFit_{number}", "needs": len(others), "for": others}
            for number, others in waits.items()
        ],
    }
    lines = drawn(picture, 110, 19)
    shown = "\n".join(lines[:-1])
    print(shown)
    page = Path(__file__).parents[2] / "docs/user/run.md"
    assert f"```text\n{shown}\n```" in page.read_text()


def test_a_small_terminal_shows_what_matters_most(tmp_path: Path) -> None:
    picture = picture_of(in_the_middle(tmp_path))
    assert drawn(picture, 50, 9) == [
        "words & <sums> ███▓▓▓▒▒▒▒▒░░░ 1 of 5 done, 0:00:10",
        "1 running, 2 ready, 1 waiting",
        "read: 2 kB where tasks ran (40 %), 3 kB from othe…",
        "host  runs now",
        "n1    -",
        "n2    make-<2> 7 s",
        "",
    ]
    assert drawn(picture, 20, 3) == ["w 1 of 5 done, 0:00…", ""]


def test_what_is_left_out_is_counted() -> None:
    picture = large(random.Random(1)) | {
        "tasks": dict.fromkeys(["running", "ready", "done", "failed", "blocked"], 0)
        | {"waiting": 1234},
        "hosts": [],
        "ready": [],
        "blocked_by": [
            {"task": f"t{n}", "needs": 9, "for": ["a", "b", "c", "d"]} for n in range(25)
        ],
    }
    lines = drawn(picture, 80, 24)
    assert lines[-3:] == ["t6     a, b, c, d and 5 more", "and 1,227 more", ""]


@pytest.mark.parametrize("seed", range(100))
def test_a_picture_fits_its_terminal_whatever_is_in_it(seed: int) -> None:
    chance = random.Random(seed)
    picture = large(chance)
    width, height = chance.randint(1, 140), chance.randint(1, 60)
    encoding = chance.choice(["utf-8", "ascii"])
    lines = drawn(picture, width, height, encoding)
    assert len(lines) <= max(2, height - 1)
    assert max(map(cell_len, lines)) <= width
    assert lines[-1] == ""
    assert all(line.isprintable() for line in lines)
    if encoding == "ascii":
        assert not set("".join(lines)) & set("█▓▒░×·…")
