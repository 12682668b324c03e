from pathlib import Path

import pytest
from intarsia.demo.blast import Blast, deal, records


def test_records_keep_every_line() -> None:
    text = ">a first\nACGT\nAC\n>b\nGG\n"
    assert list(records(text)) == [">a first\nACGT\nAC\n", ">b\nGG\n"]
    assert "".join(records(text)) == text


@pytest.mark.parametrize(("count", "parts"), [(40, 20), (41, 20), (3, 5), (0, 2)])
def test_dealing_keeps_order_and_differs_by_one_at_most(count: int, parts: int) -> None:
    items = [str(number) for number in range(count)]
    hands = deal(items, parts)
    assert [item for hand in hands for item in hand] == items
    assert len(hands) == parts
    assert max(map(len, hands)) - min(map(len, hands)) <= 1


def test_the_packed_sequences_are_the_known_ones(tmp_path: Path) -> None:
    Blast("medium").prepare(tmp_path)
    assert len(list(records((tmp_path / "database.fa").read_text()))) == 5681
    assert len(list(records((tmp_path / "query.fa").read_text()))) == 568
