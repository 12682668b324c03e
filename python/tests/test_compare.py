from pathlib import Path

from intarsia.demo.compare import differences, digests


def test_only_files_that_match_a_pattern_are_digested(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.fits").write_bytes(b"a")
    (tmp_path / "b.log").write_bytes(b"b")
    assert list(digests(tmp_path, ["*.fits", "a*"])) == ["deep/a.fits"]


def test_one_changed_bit_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00")
    before = digests(tmp_path, ["*"])
    (tmp_path / "a").write_bytes(b"\x01")
    assert [text.split()[:2] for text in differences(before, digests(tmp_path, ["*"]))] == [
        ["a", "differs:"]
    ]


def test_missing_and_additional_files_are_named() -> None:
    assert differences({"a": "1"}, {"b": "1"}) == [
        "a is missing",
        "b is there but should not be",
    ]
    assert differences({"a": "1"}, {"a": "1"}) == []
