"""What the adapter for Parsl knows of hosts and files, without workers and without a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from intarsia.engines import parsl_sight
from intarsia.engines.parsl import PlacedExecutor
from intarsia.engines.parsl_sight import Sight
from parsl.data_provider.files import File
from parsl.dataflow.memoization import id_for_memo
from parsl.executors import ThreadPoolExecutor


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    """The workers of a host."""
    executor = ThreadPoolExecutor(label="n1", max_threads=1)
    executor.start()
    yield executor
    executor.shutdown()


def test_a_host_is_lost_until_its_workers_see_the_store_again(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {"/store"}
    monkeypatch.setattr(parsl_sight, "has_lost_store", lambda path: path in gone)
    told: list[str] = []
    sight = Sight({"n1": executor})
    sight.ask("n1", ["/other"], lambda: told.append("other"))
    settled(executor)
    assert (sight.lost, told) == (set(), ["other"])
    sight.ask("n1", ["/store"], lambda: told.append("store"))
    settled(executor)
    assert (sight.lost, told) == ({"n1"}, ["other", "store"])
    sight.ask_again()
    settled(executor)
    assert sight.lost == {"n1"}
    gone.clear()
    sight.ask_again()
    settled(executor)
    assert sight.lost == set()


def settled(executor: ThreadPoolExecutor) -> None:
    """Wait until a worker, of which there is one, has answered."""
    executor.submit(int, {}).result(60)


def test_checkpoints_know_an_output_by_its_name_and_an_input_by_what_is_in_it_too(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    PlacedExecutor({"n1": executor})
    path = tmp_path / "a"
    path.write_text("one")
    file, other = File(f"intarsia://{path}"), File(f"intarsia://{tmp_path}/b")
    as_input, as_output = id_for_memo(file), id_for_memo(file, output_ref=True)
    assert id_for_memo(file) == as_input
    assert id_for_memo(other, output_ref=True) != as_output
    path.write_text("other")
    os.utime(path, ns=(0, 0))
    assert id_for_memo(file) != as_input
    assert id_for_memo(file, output_ref=True) == as_output
