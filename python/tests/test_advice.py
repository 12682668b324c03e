"""The page on an advice, and predictions from what was measured and traced."""

from __future__ import annotations

import csv
import json
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from intarsia.advice import __main__ as command
from intarsia.advice.sensitivity import ASSUMED_SHARE, numbers_of
from intarsia.seed import __main__ as seeding
from intarsia.store import find_binary
from intarsia.trace import __main__ as tracing
from requirements import built_binary

ACCESS = {"request_seconds": 1e-4, "bytes_per_second": 5e8}


def profile(hosts: int = 4) -> dict[str, Any]:
    return {
        "format": "intarsia-profile",
        "version": 1,
        "name": "four",
        "hosts": hosts,
        "provenance": {"source": "assumed", "note": "a test with <angles>"},
        "host": {"slots": 1, "in_bytes_per_second": 125e6, "out_bytes_per_second": 125e6},
        "network": {"latency_seconds": 5e-5, "loopback_bytes_per_second": 4e9},
        "manager": {
            "open_seconds": {"samples": [1e-4, 3e-4]},
            "allocate_seconds": 2e-4,
            "commit_seconds": 2e-4,
        },
        "tiers": [{"class": "ssd", "capacity_bytes": 10**12, "read": ACCESS, "write": ACCESS}],
    }


def workload() -> dict[str, Any]:
    files: list[dict[str, Any]] = [
        {"name": "db", "size_bytes": 200_000_000},
        {"name": "sum", "size_bytes": 1_000_000},
    ]
    tasks: list[dict[str, Any]] = []
    for number in range(4):
        files.append({"name": f"part-{number}", "size_bytes": 1_000_000})
        tasks.append({"name": f"search-{number}", "stage": "search", "reads": ["db"]})
        tasks[-1] |= {"compute_seconds": 1, "writes": [f"part-{number}"]}
    parts = [f"part-{number}" for number in range(4)]
    tasks.append({"name": "merge", "reads": parts, "compute_seconds": 0.5, "writes": ["sum"]})
    form = {"format": "intarsia-workload", "version": 1, "name": "blast"}
    return form | {"files": files, "tasks": tasks}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a workload and a profile."""
    built_binary()
    (tmp_path / "w.json").write_text(json.dumps(workload()))
    (tmp_path / "p.json").write_text(json.dumps(profile()))
    return tmp_path


def advise(place: Path, *more: str) -> int:
    words = [str(place / "w.json"), "--profile", str(place / "p.json")]
    return command.main([*words, "--report", str(place / "out"), *more])


class Page(HTMLParser):
    """What a page loads, its headings, and whether every element ends."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_a_page_needs_nothing_else_and_says_what_it_rests_on(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--hosts", "1,2,4", "--chunk", "1MiB", "--no-pattern-hints", "--within", "1h"]
    assert advise(place, *words) == 0
    told = capsys.readouterr()
    assert "Recommended: " in told.out
    assert str(place / "out/report.html") in told.err
    page = Page((place / "out/report.html").read_text())
    assert not page.open
    assert all(one.startswith(("data:image/svg+xml;base64,", "#")) for one in page.loads)
    assert sum(one.startswith("data:") for one in page.loads) == 4
    text = " ".join(page.text)
    for said in (
        "Advice for blast",
        "The cheapest that ends within the time that was given",
        "assumed: a test with <angles>",
        "Nobody measured this profile",
        "merge",
    ):
        assert said in text
    rows = (place / "out/tables/sensitivity.csv").read_text().splitlines()
    assert rows[1].startswith("link.bytes_per_second"), "the database goes over the links"


def test_the_page_gives_an_interval_for_each_line_and_says_what_it_covers(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeded = profile()
    places = ["host.in_bytes_per_second", "host.out_bytes_per_second"]
    by_round = [1.1e8, 1.2e8, 1.3e8, 1.4e8]
    link = {"places": places, "value": 1.25e8, "half_width_95": 2e7, "by_round": by_round}
    seeded["measured"] = {"numbers": {"link.bytes_per_second": link}}
    (place / "p.json").write_text(json.dumps(seeded))
    words = ["--hosts", "1,2,4", "--top", "3"]
    assert advise(place, *words) == 0
    told = capsys.readouterr().out
    assert "(90 % of runs: " in told
    said = "the measured numbers of the profile (by 4 rounds)"
    assert said in told
    text = " ".join(Page((place / "out/report.html").read_text()).text)
    assert said in text
    assert "Not in them: error of the model unknown: no run was compared" in text
    rows = (place / "out/tables/configurations.csv").read_text().splitlines()
    heads = next(csv.reader(rows[:1]))
    for row in csv.reader(rows[1:]):
        low, middle, high = (
            float(row[heads.index(name)]) for name in ("90 % from (s)", "makespan (s)", "to (s)")
        )
        assert 0 < low <= middle <= high
    assert len(rows) > 10
    constants = profile() | {"manager": dict.fromkeys(profile()["manager"], 1e-4)}
    (place / "p.json").write_text(json.dumps(constants))
    assert advise(place, *words) == 0
    assert "No interval can be given: error of the numbers unknown" in capsys.readouterr().out


def test_an_advice_that_is_refused_says_what_the_program_says(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "p.json").write_text(json.dumps(profile() | {"colour": "red"}))
    assert advise(place) == 2
    assert "unknown field 'colour'" in capsys.readouterr().err
    assert not (place / "out").exists()
    assert command.main(["-", "--profile", "p.json", "--report", "x"]) == 2


def test_nothing_within_the_time_is_told_by_the_exit_code(place: Path) -> None:
    assert advise(place, "--hosts", "4", "--chunk", "1MiB", "--within", "1ms", "--json") == 3


def test_numbers_that_nobody_measured_are_moved_alike() -> None:
    numbers = {one.name: one for one in numbers_of(profile())}
    assert numbers["manager.open_seconds"].value == pytest.approx(2e-4)
    assert "warm" not in numbers, "no memory keeps files there"
    for one in numbers.values():
        assert one.half_width == pytest.approx(ASSUMED_SHARE * one.value)
        assert not one.is_measured


def test_what_was_seeded_and_traced_is_predicted(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = place / "store"
    store.mkdir()
    words = [str(store), "--seconds", "0.2", "--size", "2MiB", "--quiet"]
    assert seeding.main([*words, "--out", str(place / "p.json")]) == 0
    log = place / "log"
    log.write_text(
        '1 1700000000.0 execve("/bin/t", ["t"], 0x1) = 0 <0.001>\n'
        '1 1700000002.0 openat(AT_FDCWD</w>, "out", O_WRONLY|O_CREAT) = 3</w/out> <0.001>\n'
        '1 1700000002.1 write(3</w/out>, "x", 1000) = 1000 <0.001>\n'
        "1 1700000003.0 +++ exited with 0 +++\n"
    )
    assert tracing.main([str(log), "--below", "/w", "--out", str(place / "w.json")]) == 0
    asked = [str(find_binary()), "predict", str(place / "w.json"), "--json", "--profile"]
    asked.append(str(place / "p.json"))
    answer = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
    assert answer["makespan_seconds"]["mean"] == pytest.approx(3.0, abs=0.5)
    assert answer["basis"]["profile"]["source"] == "measured"
    assert answer["first_run"]["tasks"][0]["stage"] == 0
    capsys.readouterr()
    assert advise(place, "--hosts", "1", "--chunk", "1MiB") == 0
    assert "95 % interval" in (place / "out/report.html").read_text()
