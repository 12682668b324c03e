"""Reads that a task's memory answers vanish from its workload."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from intarsia.trace import __main__ as command
from intarsia.trace.cached import BLOCK_BYTES, without_hits
from intarsia.trace.workload import Operation, Task, Workload
from requirements import built_binary

B = BLOCK_BYTES


def reads(*extents: tuple[str, int, int]) -> Workload:
    """One task that reads these blocks: file, first block, blocks."""
    operations = [Operation("read", file, at * B, count * B) for file, at, count in extents]
    return Workload("w", [Task("t", "t", operations)], {"a": 100 * B, "b": 100 * B})


def left(workload: Workload) -> list[tuple[str, str, float, float]]:
    return [
        (one.kind, one.file, one.offset / B, one.size / B) for one in workload.tasks[0].operations
    ]


def test_what_was_read_before_is_left_out() -> None:
    workload = reads(("a", 0, 4), ("a", 2, 4), ("b", 0, 1), ("a", 0, 6))
    hits = without_hits(workload, 100 * B)
    assert left(workload) == [("read", "a", 0, 6), ("read", "b", 0, 1)]
    assert (hits.read_bytes, hits.hit_bytes) == (15 * B, 8 * B)
    assert hits.ratio == pytest.approx(8 / 15)


def test_what_was_used_longest_ago_goes_first() -> None:
    workload = reads(("a", 0, 1), ("a", 1, 1), ("a", 0, 1), ("a", 2, 1), ("a", 0, 1), ("a", 1, 1))
    without_hits(workload, 2 * B)
    # 0 was used again before 2 came, so 1 went.
    assert left(workload) == [("read", "a", 0, 3), ("read", "a", 1, 1)]


def test_going_round_a_file_that_is_too_large_hits_nothing() -> None:
    workload = reads(*[("a", 0, 10)] * 3)
    assert without_hits(workload, 9 * B).hit_bytes == 0
    assert without_hits(reads(*[("a", 0, 10)] * 3), 10 * B).hit_bytes == 20 * B


def test_own_writes_are_in_memory_and_stay_in_the_workload() -> None:
    operations = [
        Operation("open", "a"),
        Operation("write", "a", 0, 3 * B + 5),
        Operation("read", "a", 100, 3 * B - 100),
        Operation("read", "a", 3 * B, 10),
        Operation("compute", seconds=1.0),
        Operation("write", "b", 0, 0),
        Operation("close", "a"),
    ]
    workload = Workload("w", [Task("t", "t", operations)], {})
    hits = without_hits(workload, 10 * B)
    kinds = [(one.kind, one.size) for one in workload.tasks[0].operations]
    # Of the last block five bytes were written and ten are read.
    assert kinds == [
        ("open", 0), ("write", 3 * B + 5), ("read", 10), ("compute", 0), ("write", 0), ("close", 0),
    ]  # fmt: skip
    assert hits.hit_bytes == 3 * B - 100


def test_no_memory_changes_no_bytes_and_tasks_share_none() -> None:
    workload = reads(("a", 0, 4), ("a", 0, 4))
    assert without_hits(workload, 0).hit_bytes == 0
    two = reads(("a", 0, 4))
    two.tasks.append(Task("u", "t", [Operation("read", "a", 0, 4 * B)]))
    assert without_hits(two, 100 * B).hit_bytes == 0


def profile(cache_bytes: int) -> dict[str, object]:
    access = {"request_seconds": 1e-3, "bytes_per_second": 1e8}
    return {
        "format": "intarsia-profile",
        "version": 1,
        "name": "one",
        "hosts": 1,
        "provenance": {"source": "assumed", "note": "a test"},
        "host": {
            "slots": 1,
            "in_bytes_per_second": 1e9,
            "out_bytes_per_second": 1e9,
            "cache_bytes": cache_bytes,
            "cache_bytes_per_second": 1e15,
        },
        "network": {"latency_seconds": 0, "loopback_bytes_per_second": 1e9},
        "manager": {"open_seconds": 1e-3, "allocate_seconds": 1e-3, "commit_seconds": 1e-3},
        "tiers": [{"class": "ssd", "capacity_bytes": 1 << 40, "read": access, "write": access}],
        "client": {"outstanding_chunks": 1},
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_model_with_memory_says_the_same_of_the_whole_workload(
    tmp_path: Path, seed: int
) -> None:
    """Hits may vanish before a prediction or in it: both take equally long."""
    binary = str(built_binary())
    draw = random.Random(seed)
    extents = [(draw.choice("ab"), draw.randrange(12), draw.randint(1, 4)) for _ in range(60)]
    cache_bytes = 10 * B
    (tmp_path / "whole.json").write_text(json.dumps(reads(*extents).native()))
    words = [str(tmp_path / "whole.json"), "--cache", str(cache_bytes)]
    assert command.main([*words, "--out", str(tmp_path / "less.json")]) == 0

    def predicted(workload: str, memory: int) -> tuple[float, int]:
        (tmp_path / "p.json").write_text(json.dumps(profile(memory)))
        asked = [binary, "predict", str(tmp_path / workload), "--profile", str(tmp_path / "p.json")]
        done = subprocess.run(
            [*asked, "--chunk", str(B), "--json"], capture_output=True, text=True, check=True
        )
        run = json.loads(done.stdout)["first_run"]
        return run["makespan_seconds"], run["events"]

    whole, all_events = predicted("whole.json", cache_bytes)
    less, fewer_events = predicted("less.json", 0)
    uncached, _ = predicted("whole.json", 0)
    assert less == pytest.approx(whole, rel=1e-6)
    assert less < 0.9 * uncached
    assert fewer_events < all_events
