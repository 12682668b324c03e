"""What earlier runs teach: which hints pay, from records and from traces of Nextflow."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from intarsia.learn.__main__ import main
from intarsia.learn.lessons import Costs, Lesson, lessons_of
from intarsia.learn.nextflow import read_trace
from intarsia.learn.observed import File, LearnError, Observed, Read, Role
from intarsia.learn.record import read_record
from intarsia.learn.rules import rules_of
from intarsia.learn.source import observed_in
from intarsia.locate import Located, Locations
from intarsia.run.attempts import Attempt, History
from intarsia.run.graph import Graph, Task, graph_of
from intarsia.run.hints import Cluster, hints_of
from intarsia.run.order import Outcome, Result
from intarsia.run.record import wfformat_of

COSTS = Costs(link_bytes_per_s=100e6, hint_s=1e-3)
LARGE, SMALL = 50_000_000, 20_000


def lesson(files: Iterable[File], *, costs: Costs = COSTS, **kept: str) -> Lesson:
    """What is learned of files that are all of one rule."""
    some = tuple(files)
    (found,) = lessons_of(
        [Observed("r", some, {some[0].role: kept} if kept else {})], costs
    ).values()
    return found


def chained(size: int, **more: object) -> list[File]:
    """Files with one reader each, made on `a` and read on `b`."""
    fields: dict[str, object] = {"made_on": "a", "made_s": 1.0, "lay_on": ("a",)} | more
    return [
        File(f"f{n}", size, f"m{n}", "make", reads=(Read(f"r{n}", "read", "b", 9.0),), **fields)  # type: ignore[arg-type]
        for n in range(4)
    ]


def test_files_that_lie_where_they_are_made_need_no_hint() -> None:
    found = lesson(chained(LARGE))
    assert (found.hints, found.saved_bytes) == ({}, 0)
    assert "they lie where they are made without a hint" in found.why
    assert "nobody knows" in lesson(chained(LARGE, lay_on=())).why


def test_files_that_went_elsewhere_are_asked_to_stay_and_go_on_doing_so() -> None:
    away = lesson(chained(LARGE, lay_on=("c",)))
    assert away.hints == {"place": "local"}
    assert away.saved_bytes == 4 * LARGE
    hinted = {"place": "local"}
    assert lesson(chained(LARGE, hints=hinted), place="local").hints == hinted
    stubborn = lesson(chained(LARGE, lay_on=("c",), hints=hinted), place="local")
    assert not stubborn.hints
    assert "though asked to" in stubborn.why


def test_a_hint_on_small_files_does_not_pay_and_the_reason_has_figures() -> None:
    found = lesson(chained(SMALL, lay_on=("c",)))
    assert not found.hints
    assert found.why == (
        "80 kB went to other hosts than that of their maker, which the link moves in 0.8 ms; "
        "setting the hint takes 4 ms"
    )
    slow = lesson(chained(SMALL, lay_on=("c",)), costs=Costs(1e6))
    assert slow.hints == {"place": "local"}, "over a slow link it does"


def gathered(spread_s: float, hosts: str = "abcd") -> list[File]:
    """Four files of as many makers for one reader, the last made so much later."""
    return [
        File(
            f"f{n}",
            LARGE,
            f"m{n}",
            "make",
            made_on=host,
            made_s=n * spread_s / 3,
            lay_on=(host,),
            reads=(Read("sum", "sum", "a", 99.0),),
        )
        for n, host in enumerate(hosts)
    ]


def test_files_for_one_reader_come_together_only_if_there_is_time_for_it() -> None:
    found = lesson(gathered(spread_s=10.0))
    assert found.hints == {"place": "collocate:{reader}"}
    assert found.hints_for(["sum-7"]) == {"place": "collocate:sum-7"}
    assert found.hints_for(["sum-7", "sum-8"]) == {}, "for two readers there is no one place"
    assert found.saved_bytes == 3 * LARGE
    assert lesson(gathered(spread_s=0.3)).saved_bytes == 30_000_000, "what the link moves meanwhile"
    again = [
        replace(file, lay_on=("a",), hints={"place": "collocate:sum"})
        for file in gathered(spread_s=10.0)
    ]
    assert lesson(again).hints == found.hints, "that it was done does not undo it"
    assert not lesson(gathered(spread_s=0.0)).hints, "all at once they would only wait elsewhere"
    assert not lesson(gathered(10.0, "aaaa")).hints, "they lie together already"


def spread(gap_s: float, size: int = LARGE) -> list[File]:
    """A file that three other hosts read, so long after it was made."""
    reads = tuple(Read(f"r{n}", "read", host, 5.0 + gap_s) for n, host in enumerate("abcd"))
    return [File("f", size, "m", "make", made_on="a", made_s=5.0, lay_on=("a",), reads=reads)]


@pytest.mark.parametrize(("gap_s", "replicas"), [(0.1, None), (0.6, "2"), (1.2, "3"), (60.0, "4")])
def test_as_many_copies_are_made_as_there_is_time_for(gap_s: float, replicas: str | None) -> None:
    found = lesson(spread(gap_s))
    assert found.hints == ({} if replicas is None else {"replicas": replicas})
    if replicas is None:
        assert "they are read before a copy could be made" in found.why


def test_what_is_read_again_is_kept_if_the_host_would_not_do_so_by_itself() -> None:
    reads = tuple(Read(f"r{n}", "read", host, 5.0) for n, host in enumerate("abb"))
    files = [File("f", LARGE, "m", "make", made_on="a", made_s=5.0, lay_on=("a",), reads=reads)]
    assert lesson(files, costs=Costs(100e6, kept_bytes=LARGE - 1)).hints == {"cache": "keep"}
    found = lesson(files)
    assert not found.hints
    assert "hosts keep what they read again" in found.why


@pytest.mark.parametrize("seed", range(200))
def test_no_hint_is_set_where_the_bytes_saved_do_not_pay_for_it(seed: int) -> None:
    """Of random runs: whatever a hint brings, it is no more than all that was read elsewhere."""
    chance = random.Random(seed)
    costs = Costs(
        10 ** chance.uniform(5, 10), 10 ** chance.uniform(-4, -2), 10 ** chance.uniform(3, 9)
    )
    files = []
    for number in range(chance.randint(1, 30)):
        stage = chance.choice(["x", "y"])
        reads = tuple(
            Read(
                f"t{chance.randrange(6)}",
                chance.choice(["p", "q"]),
                chance.choice("abc"),
                chance.uniform(0, 9),
            )
            for _ in range(chance.choice([0, 1, 1, 1, 3, 5]))
        )
        size = round(10 ** chance.uniform(0, 8))
        lay = (chance.choice("abc"),)
        files.append(
            File(
                f"f{number}",
                size,
                f"m{number}",
                stage,
                chance.choice(["a", "b", ""]),
                chance.uniform(0, 5),
                lay,
                {},
                reads,
            )
        )
    by_role: dict[Role, list[File]] = {}
    for file in files:
        by_role.setdefault(file.role, []).append(file)
    for role, found in lessons_of([Observed("r", tuple(files))], costs).items():
        assert found.why
        if found.hints:
            most = sum(file.size_bytes * max(1, len(file.reads)) for file in by_role[role])
            assert found.saved_bytes <= most
            assert found.saved_bytes / costs.link_bytes_per_s > costs.hint_s * len(by_role[role])


def test_lessons_count_before_what_the_graph_says_and_after_what_tasks_say() -> None:
    tasks = [
        Task("make-1", "x", (), ("f1",), stage="make"),
        Task("make-2", "x", (), ("f2",), stage="make", hints={"place": "scatter:1MiB"}),
        Task("other", "x", (), ("g",), stage="other"),
        Task("read-1", "x", ("f1",), ("h1",), stage="read"),
        Task("read-2", "x", ("f2", "g"), ("h2",), stage="read"),
    ]
    graph = graph_of("w", "w", tasks, {"g": 1 << 20})
    role = Role("make", "f*", ("read",))
    keep = {role: Lesson(role, 1, 1, {"cache": "keep"})}
    assert hints_of(graph, Cluster(2), keep, lambda _: {"pattern": "distribute"}) == {
        "f1": {"cache": "keep"},
        "f2": {"cache": "keep", "place": "scatter:1MiB"},
        "g": {"place": "local"},
    }
    assert "f1" not in hints_of(graph, Cluster(2), {role: Lesson(role, 1, 1)})
    assert hints_of(graph, Cluster(1), keep) == {"f2": {"place": "scatter:1MiB"}}


def run_of(directory: Path) -> tuple[Graph, History]:
    """A run of three tasks, of which one read the files that two others made on another host."""
    tasks = [
        Task("make-1", "x", (), ("out/f1",), stage="make"),
        Task("make-2", "x", (), ("out/f2",), stage="make"),
        Task("sum", "x", ("out/f1", "out/f2"), ("total",), stage="sum"),
    ]
    graph = graph_of("w", "w", tasks)
    history = History(graph, directory, directory, "local")
    history.began_s, history.ended_s = 1000.0, 1100.0
    (directory / "out").mkdir()
    for number, (task, host) in enumerate(zip(tasks, ["a", "b", "a"], strict=True)):
        for file in task.outputs:
            (directory / file).write_bytes(bytes(1000 + number))
        outcome = Outcome(Result.DONE, began_s=1000.0 + number, ended_s=1001.0 + number)
        history.attempts.append(Attempt(task.name, 1, host, 1.0, 1.0, 0, 0, outcome, "log"))
    history.lay_on = {"out/f1": ("a",), "out/f2": ("c",)}
    history.hints = {"out/f2": {"place": "local"}}
    return graph, history


def test_a_record_of_a_run_tells_who_read_what_where(tmp_path: Path) -> None:
    _, history = run_of(tmp_path)
    read = Read("sum", "sum", "a", 1002.0, 1003.0)
    first = File("out/f1", 1000, "make-1", "make", "a", 1001.0, ("a",), {}, (read,), 1.0)
    observed = read_record("r", json.dumps(wfformat_of(history, {})))
    assert observed.files[0] == first
    assert observed.files[1].lay_on == ("c",)
    assert observed.files[1].hints == {"place": "local"}
    assert observed.kept == {}
    role = Role("make", "f*", ("sum",))
    history.lessons = {role: Lesson(role, 2, 2001, {"place": "local"})}
    assert read_record("r", json.dumps(wfformat_of(history, {}))).kept == {role: {"place": "local"}}


def test_records_that_teach_nothing_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("", "no json", "{}", "[]", '{"workflow": {"specification": {"tasks": [{}]}}}'):
        path = tmp_path / "r.json"
        path.write_text(text)
        with pytest.raises(LearnError, match=r"r\.json: is no record in WfFormat 1\.5"):
            observed_in(path)
    assert main([str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["r.json", "--link", "fast"])
    assert ended.value.code == 2
    assert "200mbit" in capsys.readouterr().err


def nextflow(place: Path) -> Path:
    """What Nextflow leaves of two parts that were cleaned and then packed; return the trace."""
    work = place / "work"
    lines = ["task_id\thash\tname\tstatus"]
    for number in (1, 2):
        names = {"clean": f"{number:02x}/aaaaaa", "pack": f"{number:02x}/bbbbbb"}
        for stage, name in names.items():
            directory = work / f"{name}0123456789"
            directory.mkdir(parents=True)
            for control, seconds in ((".command.begin", 100), (".exitcode", 101)):
                (directory / control).touch()
                os.utime(directory / control, (seconds + number, seconds + number))
            (directory / ".command.sh").write_text("#!/bin/sh\n")
            lines.append(f"{number}\t{name}\t{stage} ({number})\tCOMPLETED")
        cleaned = work / f"{names['clean']}0123456789/{number}.clean"
        cleaned.write_bytes(bytes(LARGE // 100))
        packed = work / f"{names['pack']}0123456789"
        (packed / f"{number}.clean").symlink_to(cleaned)
        (packed / f"{number}.clean.gz").write_bytes(bytes(100))
    lines.append("9\tff/ffffff\tclean (9)\tFAILED")
    trace = place / "trace.txt"
    trace.write_text("\n".join(lines) + "\n")
    return trace


def lying(paths: Iterable[str]) -> Locations:
    """As if every file lay on the host `n3`."""
    return Locations(tuple(Located(path, 1, {"n3": 1}) for path in paths))


def test_a_trace_of_nextflow_tells_the_same(tmp_path: Path) -> None:
    trace = nextflow(tmp_path)
    observed = read_trace(str(trace), trace.read_text(), tmp_path / "work", lying)
    assert [(Path(one.name).name, one.role) for one in observed.files] == [
        ("1.clean", Role("clean", "*.clean", ("pack",))),
        ("1.clean.gz", Role("pack", "*.gz", ())),
        ("2.clean", Role("clean", "*.clean", ("pack",))),
        ("2.clean.gz", Role("pack", "*.gz", ())),
    ]
    first = observed.files[0]
    assert (first.made_on, first.made_s, first.lay_on) == ("n3", 102.0, ("n3",))
    assert first.reads == (Read("pack (1)", "pack", "n3", 101.0, 102.0),)
    assert first.took_s == 1.0
    with pytest.raises(LearnError, match=r"none of its 4 tasks has a directory in .*--work"):
        read_trace(str(trace), trace.read_text(), tmp_path / "none", lying)


def test_lessons_of_files_that_end_alike_become_rules(tmp_path: Path) -> None:
    trace = nextflow(tmp_path)
    observed = read_trace(str(trace), trace.read_text(), tmp_path / "work", lying)
    role = Role("clean", "*.clean", ("pack",))
    taught = {role: Lesson(role, 2, 2, {"place": "collocate:{reader}", "cache": "keep"})}
    assert rules_of(observed.files, taught) == {role: "*.clean place=collocate:pack cache=keep"}
    (other, *rest) = observed.files
    alike = File("x.clean", 1, "m", "else", reads=other.reads)
    assert rules_of([other, *rest, alike], taught) == {}


def test_the_command_says_rules_with_their_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = nextflow(tmp_path)
    assert main([str(trace)]) == 0
    printed = capsys.readouterr().out
    assert "4 files" in printed
    assert "clean: *.clean -> pack" in printed
    assert "no task reads them" in printed
    assert main([str(trace), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["maker"] for one in told} == {"clean", "pack"}
    assert all(one["why"] for one in told)
    assert main([str(trace), "--rules"]) == 0
    assert capsys.readouterr().out == ""
