"""The page that shows a run while it goes on."""

from __future__ import annotations

import json
import random
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from intarsia.run.ahead import Ahead, Budget
from intarsia.run.attempts import Attempt, History
from intarsia.run.events import ClusterError
from intarsia.run.graph import Task, graph_of
from intarsia.run.live import LivePage, page_of
from intarsia.run.moment import Moment, picture_of
from intarsia.run.order import Outcome, Result
from intarsia.run.progression import Progression, State
from intarsia.run.settings import Sent
from intarsia.schedule import Task as Placed
from intarsia.schedule import TaskQueue, delayed
from run_graphs import HereCrew, make_here, random_graph

TASKS = [
    Task("make-1", "x", (), ("f1",), stage="make"),
    Task("make-<2>", "x", (), ("f2",), stage="make"),
    Task("use-1", "x", ("f1",), ("g1",), stage="use"),
    Task("use-2", "x", ("f1",), ("g2",), stage="use"),
    Task("sum", "x", ("g1", "g2", "f2"), ("total",), stage="sum"),
]


def in_the_middle(place: Path) -> Moment:
    """One task is done, one runs, two wait for the host of their data, one for three others."""
    graph = graph_of("w", "words & <sums>", TASKS)
    progression = Progression(graph, set(graph.tasks), 0)
    progression.release()
    history = History(graph, place, place, "local", began_s=100.0)
    progression.start("make-1")
    progression.done("make-1")
    outcome = Outcome(Result.DONE, began_s=101.0, ended_s=102.0)
    history.attempts.append(Attempt("make-1", 1, "n1", 100.0, 101.0, 5000, 2000, outcome, "log"))
    history.failed["other"] = "ended with 3"
    progression.start("make-<2>")
    queue: TaskQueue[str] = TaskQueue({"n1": 1, "n2": 2}, delayed)
    queue.add("make-<2>", Placed(), 103.0)
    (start,) = queue.start(103.0)
    sent = Sent("make-<2>", 1, start.host, 100.0, 103.0, Placed(), "log")
    for name in ("use-1", "use-2"):
        queue.add(name, Placed({"n1": 7_000_000}, 9_000_000), 102.0)
    ahead = Ahead(HereCrew({}, make_here), Budget())
    return Moment(graph, progression, history, [sent], queue, ahead, 110.0)


def test_the_picture_says_what_runs_and_what_waits_for_what(tmp_path: Path) -> None:
    picture = picture_of(in_the_middle(tmp_path))
    assert picture["elapsed_s"] == 10.0
    assert {state: n for state, n in picture["tasks"].items() if n} == {
        "waiting": 1,
        "ready": 2,
        "running": 1,
        "done": 1,
    }
    assert picture["bytes"] == {"local": 2000, "remote": 3000, "copied_ahead": 0}
    n1, n2 = picture["hosts"]
    assert (n1["host"], n1["done"], n1["remote_bytes"]) == ("n1", 1, 3000)
    assert n2["running"] == [{"task": "make-<2>", "for_s": 7.0}]
    assert n2["free_slots"] == 1
    assert picture["ready"][0] == {
        "task": "use-1",
        "for_s": 8.0,
        "host": "n1",
        "host_bytes": 7_000_000,
        "input_bytes": 9_000_000,
    }
    (wait,) = picture["blocked_by"]
    assert wait == {"task": "sum", "needs": 3, "for": ["make-<2>", "use-1", "use-2"]}


@pytest.mark.parametrize("seed", range(20))
def test_every_task_is_in_the_picture_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    graph = random_graph(chance, 40)
    progression = Progression(graph, set(graph.tasks), 0)
    progression.release()
    for _ in range(chance.randint(0, 30)):
        ready = progression.named(State.READY)
        if ready:
            name = chance.choice(ready)
            progression.start(name)
            if chance.random() < 0.8:
                progression.done(name)
            elif chance.random() < 0.5:
                progression.give_up(name)
    history = History(graph, tmp_path, tmp_path, "local", began_s=1.0)
    ahead = Ahead(HereCrew({}, make_here), Budget())
    picture = picture_of(Moment(graph, progression, history, [], None, ahead, 2.0))
    assert sum(picture["tasks"].values()) == len(graph.tasks)
    assert sum(stage["all"] for stage in picture["stages"]) == len(graph.tasks)
    for wait in picture["blocked_by"]:
        assert wait["needs"] >= len(wait["for"]) > 0
    assert "<h1>random</h1>" in page_of(picture)


def test_the_page_is_served_until_it_is_closed_and_names_are_no_html(tmp_path: Path) -> None:
    page = LivePage("0")
    try:
        assert b"has not begun" in fetched(page.url)
        page.show(picture_of(in_the_middle(tmp_path)))
        text = fetched(page.url).decode()
        assert "words &amp; &lt;sums&gt;" in text
        assert "make-&lt;2&gt;" in text
        assert "<2>" not in text
        assert json.loads(fetched(page.url + "state.json"))["workflow"] == "words & <sums>"
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetched(page.url + "etc/passwd")
        refused.value.close()
        assert refused.value.code == 404
        port = page.url.rstrip("/").rpartition(":")[2]
        with pytest.raises(ClusterError, match="give another port"):
            LivePage(port)
    finally:
        page.close()
    with pytest.raises(urllib.error.URLError):
        fetched(page.url)


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
    return content
