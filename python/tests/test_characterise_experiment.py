"""Screening designs with known matrices, effects with known truth, and short runs of fio."""

import json
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from intarsia.characterise.__main__ import main
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import (
    design_for,
    important,
    main_effects,
    plackett_burman,
    read_experiment,
)
from intarsia.characterise.experiment.design import Kind
from intarsia.characterise.experiment.target import require_directory

FACTORS = """\
[experiment]
seconds = 0.2
repetitions = 1
size = "256k"
[options]
bs = "{block}"
rw = "{kind}"
[factors]
block = { low = "4k", high = "64k" }
kind = { low = "read", high = "randread", kind = "workload" }
"""


def test_twelve_runs_are_those_that_were_printed() -> None:
    signs = plackett_burman(10)
    text = ["".join("+" if one > 0 else "-" for one in row) for row in signs]
    assert text[0] == "++-+++---+-"
    assert text[1] == "-++-+++---+"
    assert text[-1] == "-" * 11
    assert np.array_equal(signs.T @ signs, 12 * np.eye(11))


@pytest.mark.parametrize("factors", [2, 3, 7, 11, 15, 19, 20, 23, 31])
def test_designs_of_every_size_are_orthogonal(factors: int) -> None:
    signs = plackett_burman(factors)
    runs = 4 * int(np.ceil((factors + 1) / 4))
    assert signs.shape == (runs, runs - 1)
    assert np.array_equal(signs.T @ signs, runs * np.eye(runs - 1))


def test_a_size_that_is_not_built_in_takes_the_next_one() -> None:
    signs = plackett_burman(35)
    assert np.array_equal(signs.T @ signs, len(signs) * np.eye(len(signs) - 1))
    assert 36 <= len(signs) <= 40
    for factors in (0, 100):
        with pytest.raises(CharacteriseError, match="1 to 99"):
            plackett_burman(factors)


NAMES = tuple("abcdefghij")


def test_effects_and_their_ranks_are_found_and_unused_columns_show_the_noise() -> None:
    design = design_for(NAMES, folded=False)
    random = np.random.default_rng(1)
    truth = 10 + 3 * design.signs[:, 2] - 1.5 * design.signs[:, 5]
    measured = truth[:, None] + random.normal(0, 0.1, (12, 3))
    effects = main_effects(design, measured, 0.999)
    assert [one.name for one in effects[:2]] == ["c", "f"]
    assert effects[0].value == pytest.approx(6, abs=0.15)
    assert effects[1].value == pytest.approx(-3, abs=0.15)
    assert effects[0].low < 6 < effects[0].high
    assert [one.name for one in important(effects)] == ["c"]
    assert sum(one.share for one in effects) == pytest.approx(1)
    assert effects[-1].is_dummy
    assert abs(effects[-1].value) < 0.2


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    design = design_for(NAMES)
    random = np.random.default_rng(2)
    hits = []
    for _ in range(60):
        measured = design.signs[:, [0]] * 1.0 + random.normal(0, 1, (len(design.signs), 2))
        for one in main_effects(design, measured, 0.9):
            hits.append(one.low <= (2.0 if one.name == "a" else 0.0) <= one.high)
    assert np.mean(hits) == pytest.approx(0.9, abs=0.04)


def test_folding_over_frees_main_effects_of_interactions_of_two() -> None:
    for folded, expected in ((False, False), (True, True)):
        design = design_for(NAMES, folded=folded)
        product = design.signs[:, 0] * design.signs[:, 1] * 5.0
        effects = main_effects(design, product[:, None] + np.zeros((1, 2)))
        is_free = all(abs(one.value) < 1e-9 for one in effects)
        assert is_free is expected


@pytest.mark.parametrize("factors", [2, 4, *range(5, 16)])
def test_a_fraction_of_resolution_four_is_free_of_interactions_of_two(factors: int) -> None:
    signs = design_for(tuple("abcdefghijklmnopqrst"[:factors]), Kind.FRACTIONAL).signs
    assert len(signs) <= 32
    assert np.array_equal(signs.T @ signs, len(signs) * np.eye(factors))
    for one, other in combinations(range(factors), 2):
        assert not (signs.T @ (signs[:, one] * signs[:, other])).any()


def test_a_full_design_has_every_combination_once_and_finds_the_truth() -> None:
    design = design_for(("a", "b", "c"), Kind.FULL)
    assert len(np.unique(design.signs, axis=0)) == 8
    a, b, c = design.signs.T
    measured = (3 * a - b + 5 * a * b * c)[:, None] + np.array([[-0.1, 0.1]])
    effects = main_effects(design, measured)
    assert [(one.name, round(one.value, 9)) for one in effects] == [("a", 6), ("b", -2), ("c", 0)]
    with pytest.raises(CharacteriseError, match="too many runs"):
        design_for(tuple("abcdefghijk"), Kind.FULL)
    with pytest.raises(CharacteriseError, match="15 at most"):
        design_for(tuple(f"f{n}" for n in range(17)), Kind.FRACTIONAL)


def test_without_repetitions_small_effects_tell_the_noise() -> None:
    design = design_for(NAMES, folded=False)
    random = np.random.default_rng(3)
    measured = 10 * design.signs[:, [3]] + random.normal(0, 0.5, (12, 1))
    effects = main_effects(design, measured)
    assert [one.name for one in effects if one.is_clear] == ["d"]
    with pytest.raises(CharacteriseError, match="not every run"):
        main_effects(design, np.full((12, 1), np.nan))


def test_a_factor_file_is_read_and_its_faults_are_named(tmp_path: Path) -> None:
    path = tmp_path / "factors.toml"
    path.write_text(FACTORS)
    experiment = read_experiment(path)
    assert experiment.options_of({"block": 1, "kind": -1}) == {"bs": "64k", "rw": "read"}
    for old, new, message in (
        ('high = "64k"', 'high = "4k"', "both levels are 4k"),
        ('kind = "workload"', 'kind = "disk"', "factors.kind.kind"),
        ('rw = "{kind}"\n', "", "no option uses {kind}"),
        ("{block}", "{blok}", "factors.block: no option"),
        ("seconds = 0.2", "seconds = 0", "experiment.seconds"),
        ("seconds", "second", "unknown field second"),
        ("[factors]", "[factors", "factors.toml"),
    ):
        path.write_text(FACTORS.replace(old, new))
        with pytest.raises(CharacteriseError, match=message):
            read_experiment(path)


def test_runs_write_only_into_a_directory(tmp_path: Path) -> None:
    with pytest.raises(CharacteriseError, match="has the store gone away"):
        require_directory(tmp_path / "none")
    devices = [one for one in Path("/dev").glob("*") if one.is_block_device()]
    for device in devices[:1]:
        with pytest.raises(CharacteriseError, match="is a device, and runs write"):
            require_directory(device)


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_fio_is_run_once_for_each_row_and_goes_on_after_an_interruption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    factors, out, store = tmp_path / "factors.toml", tmp_path / "out", tmp_path / "store"
    factors.write_text(FACTORS)
    store.mkdir()
    words = ["screen", str(store), "--factors", str(factors), "--out", str(out), "--no-fold"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == 4
    assert {one["name"] for one in found["effects"]["throughput"]} == {"block", "kind", "unused 1"}
    assert (out / "effects.png").stat().st_size > 1000
    assert not list(store.iterdir()), "its files are gone"
    results = out / "runs.jsonl"
    lines = results.read_text().splitlines()
    # Killed within the last line: only that run is measured again.
    results.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])
    assert main(words) == 0
    assert "make up" in capsys.readouterr().out
    kept = results.read_text()
    assert all(line in kept for line in lines[:-1])
    assert main([*words, "--design", "full"]) == 1
    assert "only a Plackett-Burman design is folded" in capsys.readouterr().err
    assert main([*words, "--seed", "2"]) == 1
    assert "another experiment, target or seed" in capsys.readouterr().err
