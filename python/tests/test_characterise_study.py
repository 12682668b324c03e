"""The study: raw samples, verdicts on known ones, and all tables again from the files alone."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from intarsia.characterise.__main__ import main
from intarsia.characterise.commands import study as command
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.model.evaluate import BASELINES, OURS
from intarsia.characterise.study import aims, claims, errors, samples, screens
from intarsia.characterise.study.errata import errata_frame
from intarsia.characterise.study.samples import Size
from intarsia.simulate.report.claims import Verdict
from simulator import real_binary

TINY = Size(("fc-raid5", "volume"), 2, 48, 32, 8, 300, 1)


def test_all_tables_come_again_from_the_raw_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INTARSIA_BIN", str(real_binary()))
    monkeypatch.setattr(samples, "QUICK", TINY)
    monkeypatch.setattr(samples, "POOLS", {"mixed": ("fc-raid5", "volume")})
    words = ["study", "--out", str(tmp_path), "--json"]
    assert main([*words, "--quick"]) == 0
    found = json.loads(capsys.readouterr().out)
    numbers = [one["number"] for one in found]
    assert len(set(numbers)) == len(numbers)
    wanted = {"R15", "R17", "R18", "R20", "R22", "R23", "R26 f_X", "R28 intervals", "R7"}
    assert wanted <= set(numbers)
    assert {"error", "error, longer runs"} <= set(numbers)
    assert {"coverage 90%", "coverage 95%", "R34 (mixed stores)"} <= set(numbers)
    tables = {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}
    page = (tmp_path / "report.html").read_text()
    assert {"errors-by-store.csv", "coverage.csv", "seeks.csv", "claims.csv"} <= set(tables)
    assert {"errata.csv", "errors-longer-runs.csv"} <= set(tables)
    for path in (tmp_path / "tables").iterdir():
        path.unlink()
    # Nothing can be simulated any more.
    monkeypatch.setenv("INTARSIA_BIN", "/nowhere")
    assert main([*words, "--quick", "--redraw"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()} == tables
    assert (tmp_path / "report.html").read_text() == page
    (tmp_path / "raw/seeks.csv.gz").unlink()
    assert main([*words, "--redraw"]) == 1
    assert "lacks seeks.csv.gz" in capsys.readouterr().err
    assert main([*words, "--redraw", "--fio", str(tmp_path)]) == 1
    assert "runs.jsonl is not there" in capsys.readouterr().err
    assert command.add_parser.__module__ == "intarsia.characterise.commands.study"


def test_slips_are_computed_as_printed_and_corrected() -> None:
    found = errata_frame().set_index("slip")
    assert found.index.str.cat(sep=", ").split(", ") == [
        *(f"F{n}" for n in range(1, 15)), "F22", "F20",
    ]  # fmt: skip
    printed, corrected = found["printed"], found["corrected"]
    assert printed["F1, F2"].startswith("a -1000%")
    assert corrected["F1, F2"].startswith("a 48%")
    assert printed["F4"].startswith("1225 loads")
    assert corrected["F4"] == "1600 loads, 53.3 h"
    assert float(printed["F9"]) < -4e6
    assert corrected["F9"] == "1.0000"
    assert printed["F10"].startswith("0.0975 to 0.1018")
    assert "N2 differs by 2.4 times" in corrected["F8"]
    assert 0.4 < float(printed["F6"].split()[1].rstrip("%")) / 100 < 0.48
    assert "best first: by 47%" in corrected["F11"]
    assert corrected["F20"].startswith("E1 6, E2 5, N1 6, N2 5")


def predictions(inside: float, factor: float) -> pd.DataFrame:
    """Two stores, five fits of 400 loads: ours is `factor` off, and its intervals hold `inside`."""
    random = np.random.default_rng(1)
    count = 4000
    measured = random.uniform(5, 50, count)
    hits = np.where(random.random(count) < inside, 1.5, 1.01)
    frame = pd.DataFrame(
        {
            "store": np.repeat(["a", "b"], count // 2),
            "repetition": np.tile(np.repeat(range(5), count // 10), 2),
            "measured_ms": measured,
            **dict.fromkeys(errors.MODELS, measured * 2),
            OURS: measured * factor,
        }
    )
    for level in ("90%", "95%"):
        frame[f"{OURS}, {level} low"] = measured * factor / hits
        frame[f"{OURS}, {level} high"] = measured * factor * hits
    return frame


def test_coverage_and_errors_are_counted_from_predictions() -> None:
    good = predictions(0.9, 1.1)
    rows = errors.coverage(good).set_index(["store", "nominal"])
    assert rows.loc[("all stores", 0.9), "inside"] == pytest.approx(0.9, abs=0.015)
    assert rows.loc[("a", 0.9), "fits"] == 5
    assert 0 < rows.loc[("a", 0.9), "±"] < 0.05
    ratio = errors.by_store(good)["ours over the best published"]
    assert ratio.to_numpy() == pytest.approx([0.1, 0.1])
    assert set(BASELINES) <= set(errors.by_store(good).columns)
    by_size = errors.coverage_by_size(good)
    assert len(by_size) == 3 * 3 * 2, "three thirds of two stores and of all, at two levels"
    assert by_size["inside"].to_numpy() == pytest.approx(np.full(18, 0.9), abs=0.05)
    assert by_size.query("store == 'a' and nominal == 0.9")["loads"].sum() == 2000
    assert aims.half_of_best(good).verdict is Verdict.REPRODUCED
    assert aims.coverage(good, 0.9).verdict is Verdict.REPRODUCED
    assert aims.coverage(good, 0.95).verdict is Verdict.REFUTED, "90 % is not 95 ± 2 %"
    # Intervals that hold for all loads together and not for the fastest ones are found out.
    fast = good["measured_ms"] < good["measured_ms"].quantile(0.33)
    for level in ("90%", "95%"):
        good.loc[fast, f"{OURS}, {level} high"] = 0.0
    third = aims.coverage_by_size(good, 0.9)
    assert third.verdict is Verdict.REFUTED
    assert "not a fastest" in third.ours
    assert aims.half_of_best(predictions(0.9, 1.6)).verdict is Verdict.REFUTED


def test_rules_of_seeks_are_judged_by_what_was_measured() -> None:
    rows = {"store": "x", "measured": [100.0, 50.0], "weighted": [0.0, 48.0]}
    rules = {"corrected": [100.0, 49.0], "symmetric": [50.0, 50.0], "printed": [1e6, 1e6]}
    together = {f"{name}, together": rules[name] for name in ("corrected", "symmetric")}
    seeks = pd.DataFrame({**rows, **rules, **together})
    weighted, corrected = claims._r26(seeks)
    assert weighted.verdict is Verdict.REPRODUCED
    assert corrected.verdict is Verdict.REPRODUCED
    worse = claims._r26(seeks.assign(corrected=[50.0, 50.0]))[1]
    assert worse.verdict is Verdict.REFUTED
    assert "mean 25.0%, largest 50%" in worse.ours


def test_without_runs_of_a_benchmark_its_claims_stay_open(tmp_path: Path) -> None:
    assert {one.verdict for one in screens.claims_of_screens({})} == {Verdict.OPEN}
    path = tmp_path / "fio.jsonl"
    header = {"experiment": {"repetitions": 1, "metrics": ["tps"]}, "names": ["a", "b"]}
    signs = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    lines = [json.dumps({**header, "is_folded": False, "signs": signs})]
    for row, (a, b) in enumerate(signs):
        metrics = {"tps": 10.0 + 4 * a + b}
        lines.append(json.dumps({"row": row, "repetition": 0, "metrics": metrics, "problems": []}))
    path.write_text("\n".join(lines) + "\n")
    frame = screens.important_frame(path)
    assert frame["knobs behind half of all effects"].tolist() == ["a"]
    assert screens._r6("fio", path).verdict is Verdict.REPRODUCED
    path.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(CharacteriseError, match="runs of the design are missing"):
        screens.effects_of(path)
