"""What a run knows of earlier ones: the journal, and which tasks have to run again."""

import errno
import json
import os
import random
from pathlib import Path

import pytest
from intarsia.run.commands import read_commands
from intarsia.run.journal import Journal, JournalBusyError, JournalError, made_before
from intarsia.run.lineage import Made, lineages, needed
from intarsia.run.order import Outcome, Result, Stamp
from run_graphs import random_graph

OUTCOME = Outcome(Result.DONE, began_s=1.0, ended_s=2.0, cpu_s=0.5, outputs={"f": Stamp(3, 4)})


def test_a_journal_remembers_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "deep/journal"
    with Journal(path) as journal:
        assert journal.made == {}
        journal.done("a", "l1", "n1", OUTCOME)
        with pytest.raises(JournalBusyError, match="another run uses"):
            Journal(path)
    with Journal(path) as journal:
        assert journal.made == {"a": Made("l1", {"f": Stamp(3, 4)})}
        assert journal.past["a"].host == "n1"
    with Journal(path, fresh=True) as journal:
        assert journal.made == {}


def test_what_a_crash_left_of_a_line_is_cut_off_wherever_it_came(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.done("a", "l1", "n1", OUTCOME)
        first = path.stat().st_size
        journal.done("b", "l2", "n1", OUTCOME)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with Journal(path) as journal:
            assert set(journal.made) == ({"a"} if length >= first else set())
            journal.done("c", "l3", "n2", OUTCOME)
        with Journal(path) as journal:
            assert "c" in journal.made


def test_a_look_at_a_journal_leaves_it_and_needs_none(tmp_path: Path) -> None:
    path = tmp_path / "run/journal"
    assert made_before(path) == {}
    assert not path.parent.exists()
    with Journal(path) as journal:
        journal.done("a", "l1", "n1", OUTCOME)
        with path.open("ab") as file:
            file.write(b'{"done": "b')
        assert list(made_before(path)) == ["a"]
        assert path.read_bytes().endswith(b'{"done": "b')


def test_a_run_directory_that_cannot_be_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(JournalError, match=r"/run cannot be the run directory: .*by --run-dir"):
        Journal(tmp_path / "run/journal")


def test_a_journal_that_takes_no_more_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Journal(tmp_path / "journal") as journal:
        monkeypatch.setattr(os, "write", refuse)
        with pytest.raises(OSError, match=r"No space left on device: '.*/journal'"):
            journal.done("a", "l1", "n1", OUTCOME)


def test_a_damaged_or_foreign_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.done("a", "l1", "n1", OUTCOME)
    path.write_bytes(path.read_bytes().replace(b'"lineage"', b"lineage"))
    with pytest.raises(JournalError, match="line 2: is damaged; begin anew with --fresh"):
        Journal(path)
    head = path.read_bytes().splitlines(keepends=True)[0]
    stamp = '"outputs": {"f": [1]}, "host": "h", "began_s": 1, "ended_s": 2, "cpu_s": 3'
    for line in ('{"done": "a"}', "[]", "1", f'{{"done": "a", "lineage": "l", {stamp}}}'):
        path.write_bytes(head + line.encode() + b"\n")
        for look in (Journal, made_before):
            with pytest.raises(JournalError, match="line 2: is damaged; begin anew"):
                look(path)
    for foreign in (b"no journal\n", b'{"format": "other"}\n', b"no journal"):
        path.write_bytes(foreign)
        with pytest.raises(JournalError):
            Journal(path)
        assert path.read_bytes() == foreign


CHAIN = {
    "a": {"command": "x", "inputs": ["in"], "outputs": ["fa"]},
    "b": {"command": "x", "inputs": ["fa"], "outputs": ["fb"]},
    "c": {"command": "x", "inputs": ["fb"], "outputs": ["fc"]},
    "d": {"command": "x", "inputs": ["fa"], "outputs": ["fd"]},
}


def chain(**changes: str) -> str:
    tasks = {name: dict(task) for name, task in CHAIN.items()}
    for name, command in changes.items():
        tasks[name]["command"] = command
    return json.dumps({"tasks": tasks})


def test_only_what_is_needed_runs_again() -> None:
    graph = read_commands("w", chain())
    files: dict[str, Stamp] = {f: Stamp(1, 1) for f in ("in", "fa", "fb", "fc", "fd")}
    lineage = lineages(graph, files.get)
    made = {
        name: Made(lineage[name], {task.outputs[0]: files[task.outputs[0]]})
        for name, task in graph.tasks.items()
    }

    def lacking(*gone: str) -> set[str]:
        left = {file: stamp for file, stamp in files.items() if file not in gone}
        return needed(graph, lineage, made, left.get)

    assert lacking() == set()
    assert lacking("fa", "fb") == set(), "nobody needs these any more"
    assert lacking("fc") == {"c"}
    assert lacking("fc", "fb") == {"b", "c"}
    assert lacking("fc", "fb", "fa") == {"a", "b", "c"}
    assert lacking("fd") == {"d"}
    changed = files | {"fb": Stamp(1, 2)}
    assert needed(graph, lineage, made, changed.get) == set()
    assert needed(graph, lineage, made, {**changed, "fc": Stamp(2, 2)}.get) == {"b", "c"}
    other = read_commands("w", chain(b="y"))
    assert needed(other, lineages(other, files.get), made, files.get) == {"b", "c"}
    newer = files | {"in": Stamp(1, 9)}
    assert needed(graph, lineages(graph, newer.get), made, newer.get) == set(CHAIN)


@pytest.mark.parametrize("seed", range(30))
def test_what_runs_again_finds_its_inputs_and_no_more_runs(seed: int) -> None:
    """Of random workflows of which random files are gone."""
    chance = random.Random(seed)
    graph = random_graph(chance, 20)
    files = {file: Stamp(1, n) for n, file in enumerate([*graph.sources, *graph.producer])}
    lineage = lineages(graph, files.get)
    made = {
        name: Made(lineage[name], {file: files[file] for file in task.outputs})
        for name, task in graph.tasks.items()
        if chance.random() < 0.8
    }
    gone = {file for file in graph.producer if chance.random() < 0.3}
    left = {file: stamp for file, stamp in files.items() if file not in gone}
    found = needed(graph, lineage, made, left.get)
    assert set(graph.tasks) - set(made) <= found
    for name in found:
        for file in graph.tasks[name].inputs:
            assert file in left or graph.producer[file] in found
    for name in found & set(made):
        wanted = [
            file
            for file in graph.tasks[name].outputs
            if file in gone and (graph.is_result(file) or set(graph.consumers[file]) & found)
        ]
        assert wanted, f"{name} runs again for nothing"
