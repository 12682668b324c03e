"""The commands of `forecast-dedup`, as a user gives them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from intarsia.dedup.__main__ import main
from intarsia.dedup.corpora.trees import make_backups
from intarsia.dedup.errors import DedupError
from intarsia.dedup.study.claims import claims_of
from intarsia.dedup.study.report import build
from intarsia.dedup.study.samples import (
    Size,
    history_forecasts,
    measure,
    read_samples,
    write_samples,
)
from intarsia.simulate.report.claims import Verdict


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("corpus")
    return [str(path) for path in make_backups(root / "w", "desktop", 1, 4, scale=0.05)]


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    said = capsys.readouterr()
    assert not said.out
    return said.err


def test_forecast(backups: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "f.svg"
    found = as_json(capsys, "forecast", *backups, "--horizon", "3", "--plot", str(plot))
    point = found["bytes"]["forecast"][-1]
    assert point["backups"] == 7
    assert point["ratio_low"] <= point["ratio"] <= point["ratio_high"]
    assert len(found["segments"]["transitions"]) == 3
    assert plot.exists()
    assert plot.with_suffix(".png").exists()
    less = as_json(capsys, "forecast", *backups, "--exclude", "cache")
    assert less["bytes"]["observed"][-1]["logical"] < found["bytes"]["observed"][-1]["logical"]
    assert main(["forecast", *backups, "--quiet"]) == 0
    assert "naive ratio" in capsys.readouterr().out


def test_lists_give_what_directories_give(
    backups: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = [str(tmp_path / f"{n}.fp.xz") for n in range(3)]
    for backup, path in zip(backups, lists, strict=False):
        assert as_json(capsys, "scan", backup, "--out", path)["segments"] > 0
    from_lists = as_json(capsys, "forecast", *lists)
    from_trees = as_json(capsys, "forecast", *backups[:3])
    assert from_lists["bytes"]["forecast"] == from_trees["bytes"]["forecast"]
    assert "exists" in refusal(capsys, "scan", backups[0], "--out", lists[0])
    said = refusal(capsys, "forecast", *lists[:2], backups[2], "--chunker", "file", "--quiet")
    assert "was cut by fastcdc:4096,8192,16384, and" in said
    assert "is a list already" in refusal(capsys, "scan", lists[0], "--out", lists[1] + "x")


def test_exclude(backups: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "exclude", *backups)
    assert [part["name"] for part in found["parts"] if part["exclude"]] == ["cache"]
    assert main(["exclude", *backups, "--quiet"]) == 0
    assert "Excluding 1 of 4" in capsys.readouterr().out


def test_merge(backups: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "merge", "--first", *backups[:3], "--second", *backups[1:])
    assert found["bytes"]["shared_share"] > 0.3
    assert len(found["bytes"]["together"]) == 5


def test_sample(backups: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--share", "30%", "--chunker", "fixed:1KiB")
    found = as_json(capsys, "sample", backups[0], *options)
    assert found["bytes"]["low"] <= found["bytes"]["ratio"] <= found["bytes"]["high"]
    path = str(tmp_path / "fixed.fp")
    whole = as_json(capsys, "scan", backups[0], "--chunker", "fixed:1KiB", "--out", path)
    assert found["bytes"]["low"] <= whole["ratio"] <= found["bytes"]["high"]
    assert as_json(capsys, "sample", path, "--share", "1")["bytes"]["ratio"] == pytest.approx(
        whole["ratio"]
    )
    said = refusal(capsys, "sample", backups[0], "--chunker", "fastcdc")
    assert "sampled in fixed segments" in said


def test_throughput(backups: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "throughput", *backups[:2])
    assert found[0]["stored_share"] > found[1]["stored_share"]
    assert found[0]["throughput"] < found[1]["throughput"]
    assert "--network 0" in refusal(capsys, "throughput", backups[0], "--network", "0")
    assert "no unit mbit" in refusal(capsys, "throughput", backups[0], "--store", "100 mbit")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["forecast", "/nowhere"], "1 backups are too few"),
        (["forecast", "/nowhere", "/nowhere", "/nowhere"], "/nowhere does not exist"),
        (["exclude", "/nowhere"], "one backup does not show what changes"),
        (["sample", "/nowhere"], "/nowhere does not exist"),
        (["corpus", "--out", "/nowhere/x"], "give one of --tree, --release"),
        (["corpus", "--release", "django", "--out", "/nowhere/x"], "NAME==VERSION"),
        (["study", "--redraw", "--out", "/nowhere/x"], "run the study anew"),
    ],
)
def test_refusals(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refusal(capsys, *arguments)


def test_names_that_are_wrong(
    backups: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, "forecast", *backups, "--exclude", "cahe", "--quiet")
    assert "no such part" in said
    assert "cache" in said
    assert "end the name in .svg" in refusal(capsys, "forecast", *backups, "--plot", "x.pdf")
    said = refusal(capsys, "corpus", "--tree", "mail", "--out", str(Path(backups[0]).parent))
    assert "is not empty" in said


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Five commits, each of which changes one of four files."""
    place = tmp_path / "repository"
    place.mkdir()
    name = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(place), *name, *words], check=True, capture_output=True)

    git("init", "--quiet")
    random = np.random.default_rng(5)
    for number in range(6):
        for file in range(4) if number == 0 else [number % 4]:
            (place / f"f{file}").write_bytes(random.bytes(40_000))
        git("add", ".")
        git("commit", "--quiet", "-m", f"step {number}")
        git("tag", f"v{number}")
    return place


def test_revisions_of_a_source_tree_are_backups(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tars"
    words = ["corpus", "--git", str(repository), "--out", str(out)]
    tags = [word for n in range(6) for word in ("--revision", f"v{n}")]
    assert main([*words, "--revision", "v0", "--revision", "v9"]) == 1
    assert "git rev-parse v9^{commit}: fatal: Needed a single revision" in capsys.readouterr().err
    assert not out.exists(), "nothing is written unless all can be"
    assert main([*words, *tags]) == 0
    paths = capsys.readouterr().out.split()
    assert [Path(path).name for path in paths] == [f"00{n}-v{n}.tar" for n in range(6)]
    assert main(["forecast", *paths, "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    # Four files at first, and one of four anew each time.
    assert found["bytes"]["observed"][-1]["ratio"] == pytest.approx(9 / 24, abs=0.01)
    assert main([*words, *tags]) == 1
    assert "is not empty" in capsys.readouterr().err
    rows = list(history_forecasts(out))
    assert [row["seed"] for row in rows] == [0, 1]
    with pytest.raises(DedupError, match="a history needs 5"):
        list(history_forecasts(repository))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--debian", "../etc"], "write a package of Debian as NAME"),
        (["--git", "."], "--git and --revision belong together"),
        (["--revision", "v1", "--tree", "mail"], "belong together"),
        (["--debian", "tzdata", "--tree", "mail"], "give one of --tree"),
        ([], "give one of --tree"),
    ],
)
def test_what_a_corpus_cannot_be_made_of(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["corpus", *words, "--out", str(tmp_path / "out")]) == 1
    assert says in capsys.readouterr().err


def test_packages_of_debian_are_unpacked_as_apt_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for tool, script in (
        ("apt-get", '[ "$4" != gone ] || { echo "E: Unable to locate gone" >&2; exit 100; }\n'
         'echo "content of $4" > "$4.deb"'),
        ("dpkg-deb", 'mkdir -p "$3/usr" && cp "$2" "$3/usr/file"'),
    ):  # fmt: skip
        path = tmp_path / "bin" / tool
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    out = tmp_path / "debian"
    assert main(["corpus", "--debian", "hello-1", "--debian", "hello-2", "--out", str(out)]) == 0
    assert capsys.readouterr().out.split() == [str(out / "hello-1"), str(out / "hello-2")]
    assert (out / "hello-2/usr/file").read_text() == "content of hello-2\n"
    assert main(["corpus", "--debian", "gone", "--out", str(out)]) == 1
    assert "gone cannot be fetched: E: Unable to locate" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == ["hello-1", "hello-2"]


TINY = Size(1500, 1, 1, 0.1, 6, 5_000, 400_000, 20_000)


def test_the_study_is_drawn_from_its_samples(tmp_path: Path) -> None:
    said: list[str] = []
    samples = measure(TINY, 1, None, said.append)
    assert said[0] == "1 of 8: chunkers"
    write_samples(samples, tmp_path / "raw")
    again = read_samples(tmp_path / "raw")
    claims = {one.number: one for one in claims_of(again)}
    for row in range(41, 57):
        assert any(number.startswith(f"R{row}") for number in claims), row
    # These follow from the published tables, whatever was sampled.
    assert claims["R47 table"].verdict is Verdict.REPRODUCED
    assert claims["R49 longest"].verdict is Verdict.REPRODUCED
    assert claims["R49 mean"].verdict is Verdict.REFUTED
    assert claims["R54"].verdict is Verdict.NOT_POSSIBLE
    report = build(again, {"command": "test"}, 1)
    tables = {table.name: table.frame for part in report.sections for table in part.tables}
    assert len(tables["forecasts"]) == 10
    assert {"F15", "F16", "F17", "F18", "F19"} <= set(tables["errata"]["slip"])
    plots = {plot.name for part in report.sections for plot in part.plots}
    assert plots == {"composition", "forecasts", "throughput", "samples"}
