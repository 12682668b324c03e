"""`intarsia run --up`: from nothing to results, and what is left when that is interrupted."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import require
from intarsia.store import Store, fuse_problem, is_mounted
from runs import Run, assert_gone, run, wait_until

GATE = "while [ ! -e {go} ]; do sleep 0.05; done; "


class Place:
    """A workflow outside any store, and the words that run it in one of its own."""

    def __init__(self, directory: Path) -> None:
        self.mount, self.state = directory / "mnt", directory / "store"
        self.inputs, self.results = directory / "in", directory / "results"
        self.go = directory / "go"
        self.workflow = directory / "w.yaml"
        self.inputs.mkdir()
        (self.inputs / "text").write_text("one two\n" * 20_000)
        self.write("cp text {}", "wc -w < {} > results/words")

    def write(self, first: str, second: str) -> None:
        """Two tasks; `{}` stands for the file between them."""
        tasks = {
            "copy": {
                "command": first.format("copied"),
                "inputs": ["text"],
                "outputs": ["copied"],
            },
            "count": {
                "command": f"mkdir -p results; {second.format('copied')}",
                "inputs": ["copied"],
                "outputs": ["results/words"],
            },
        }
        self.workflow.write_text(json.dumps({"name": "glide", "tasks": tasks}))

    def words(self) -> list[str | Path]:
        up: list[str | Path] = ["--up", self.mount, f"--up-options=--dir={self.state}"]
        return [*up, "--stage-in", f"{self.inputs}/.", "--stage-out", self.results]

    def is_away(self) -> bool:
        return not is_mounted(self.mount) and not self.mount.exists()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    problem = fuse_problem()
    require(problem is None, str(problem))
    place = Place(tmp_path.resolve())
    yield place
    place.go.touch()
    assert place.is_away()


def test_from_nothing_to_results_and_nothing_is_left(place: Place) -> None:
    summary = run(place.workflow, *place.words())
    assert summary["tasks"]["done"] == 2
    assert (place.results / "results/words").read_text().strip() == "40000"
    assert sorted(path.name for path in place.results.iterdir()) == ["results"]
    assert not place.state.exists()


def test_after_a_failure_the_store_is_down_and_the_same_command_goes_on(place: Place) -> None:
    place.write("cp text {}", "echo no words; exit 3")
    _, said = Run(place.workflow, *place.words()).end(1)
    assert "  | no words" in said
    assert "its data stays" in said
    assert (place.results / ".run-w/logs/count.1.log").read_text() == "no words\n"
    assert place.is_away()
    place.write("cp text {}", "wc -w < {} > results/words")
    summary = run(place.workflow, *place.words())
    assert (summary["tasks"]["done_before"], summary["tasks"]["done"]) == (1, 1)
    assert not place.state.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_a_signal_the_store_is_down(number: signal.Signals, place: Place) -> None:
    place.write("cp text {}", f"{GATE.format(go=place.go)}wc -w < {{}} > results/words")
    goes = Run(place.workflow, *place.words(), "--json")
    wait_until(lambda: (place.mount / ".run-w/logs/count.1.log").exists(), goes)
    started = goes.started()
    goes.process.send_signal(number)
    if number == signal.SIGINT:
        wait_until(lambda: "nothing more begins" in _line(goes))
        place.go.touch()
    summary = goes.summary(128 + number)
    assert summary["stopped_by"] == number.name
    assert_gone([one for one in started if one.is_running()])
    assert (place.results / "results/words").exists() == (number == signal.SIGINT)


def test_a_signal_while_the_store_comes_up_leaves_none(place: Place) -> None:
    goes = Run(place.workflow, *place.words())
    wait_until(place.state.exists, goes)
    goes.process.send_signal(signal.SIGTERM)
    goes.end(128 + signal.SIGTERM)


def test_a_store_that_was_up_is_used_and_stays(place: Place) -> None:
    store = Store.up(place.mount, place.state)
    try:
        _, said = Run(place.workflow, *place.words()).end()
        assert "is up already; it is used, and stays up" in said
        assert store.is_alive()
        assert (place.mount / "results/words").exists()
    finally:
        store.down(purge=True)
    place.mount.rmdir()


def test_what_cannot_be_copied_in_or_brought_up_is_told(place: Place) -> None:
    words = [word for word in place.words() if not str(word).endswith("in/.")]
    words[words.index("--stage-in")] = "--stage-in=/none"
    assert "`intarsia stage in` ended with 1: /none" in Run(place.workflow, *words).end(1)[1]
    place.mount.mkdir()
    (place.mount / "in the way").touch()
    assert "`intarsia up" in Run(place.workflow, *place.words()).end(1)[1]
    (place.mount / "in the way").unlink()
    place.mount.rmdir()
    said = Run(place.workflow, "--discard").end(2)[1]
    assert "--up-options and --discard are for --up" in said


def _line(goes: Run) -> str:
    assert goes.process.stderr is not None
    return goes.process.stderr.readline()
