"""How fast hosts are by their models, for `intarsia balance`; models judged on later samples."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from intarsia.characterise import aggregate, design, published, samples
from intarsia.characterise.__main__ import main
from intarsia.characterise.load import Load, points_of
from intarsia.characterise.model import linear, process
from intarsia.characterise.model.base import Samples
from intarsia.characterise.model.evaluate import OURS
from intarsia.characterise.samples import Measurements

TABLE = {name: linear.from_coefficients(t) for name, t in published.COEFFICIENTS.items()}
WORDS = ["--load", "100,70,8k,3"]
LOAD = Load(100, 70, 8192, 3)


def measured(store: str, count: int, seed: int, times: float = 1.0) -> Samples:
    points = design.spread(count, design.Region(2048, 2**20, 1, 32), seed=seed)
    errors = np.random.default_rng([seed, 1]).normal(0, 0.03, count)
    return Samples(points, TABLE[store].predict(points) * times * np.exp(errors))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our models of two published stores, `fast.json` and `slow.json`."""
    folder = tmp_path_factory.mktemp("models")
    for name, store in (("fast", "E2"), ("slow", "N1")):
        model = process.fit(measured(store, 96, 2))
        (folder / f"{name}.json").write_text(json.dumps(model.as_json()))
    return folder


def test_speeds_are_those_of_the_models(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = [f"node02={models / 'slow.json'}", f"node 1={models / 'fast.json'}"]
    out = tmp_path / "speeds.toml"
    assert main(["speeds", *hosts, *WORDS, "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    written = tomllib.loads(out.read_text())
    assert list(written) == ["speeds"]
    for host, store in (("node02", "N1"), ("node 1", "E2")):
        truth = 3000 / float(TABLE[store].predict(points_of([LOAD]))[0])
        assert found[host]["requests_per_s"] == pytest.approx(truth, rel=0.1)
        assert found[host]["low"] < truth < found[host]["high"]
        assert written["speeds"][host] == round(60 * found[host]["requests_per_s"])
    # Loads that share a host are as fast as the model says of them together.
    assert main(["speeds", hosts[0], *WORDS, *WORDS, "--json"]) == 0
    both = json.loads(capsys.readouterr().out)["node02"]["requests_per_s"]
    model = process.StoreModel.from_json(json.loads((models / "slow.json").read_text()))
    together = aggregate.shared_latency(model, [LOAD, LOAD], 0.9)
    assert both == pytest.approx(6000 / float(together.mean_ms[0]))
    assert main(["speeds", *hosts, *WORDS]) == 0
    assert "requests/s" in capsys.readouterr().out


def test_speeds_of_tiers_are_named_by_their_directories(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tiers.toml"
    tiers = [f"/local/a=b={models / 'fast.json'}", f"/disk={models / 'slow.json'}"]
    assert main(["speeds", *tiers, "--tiers", *WORDS, "--out", str(out)]) == 0
    assert "tier" in capsys.readouterr().out
    written = tomllib.loads(out.read_text())
    assert list(written) == ["tiers"]
    assert set(written["tiers"]) == {"/local/a=b", "/disk"}
    assert written["tiers"]["/local/a=b"] > written["tiers"]["/disk"] > 0
    assert main(["speeds", f"disk={models / 'slow.json'}", "--tiers", *WORDS]) == 1
    assert "name a tier by its directory" in capsys.readouterr().err


def test_speeds_that_cannot_be_told_are_refused(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = f"n1={models / 'fast.json'}"
    for words, message in (
        ([host, "--load", "100,70,64m,3"], "host n1: a load of"),
        (["n1", *WORDS], "write HOST=MODEL.json"),
        ([host, host, *WORDS], "host n1 is given twice"),
        (["n1=none.json", *WORDS], "none.json"),
        ([host, "--load", "100,70,8k"], "write random %"),
    ):
        assert main(["speeds", *words, "--out", str(tmp_path / "s.toml")]) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "s.toml").exists()


def keep(path: Path, single: Samples) -> str:
    samples.write(path, Measurements(single, (), np.empty(0)))
    return str(path)


def test_models_are_judged_on_what_was_measured_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = keep(tmp_path / "a.csv", measured("E2", 120, 3))
    same = keep(tmp_path / "same.csv", measured("E2", 60, 4))
    slower = keep(tmp_path / "slower.csv", measured("E2", 60, 4, times=1.5))
    inside = {}
    for name, later in (("same", same), ("slower", slower)):
        assert main(["compare", first, "--later", later, "--json"]) == 0
        inside[name] = json.loads(capsys.readouterr().out)[OURS]["a"]
    assert inside["same"]["coverage_90"] > 0.8
    assert inside["slower"]["coverage_90"] < 0.3, "a store that changed shows"
    assert inside["slower"]["median_relative"] == pytest.approx(1 / 3, abs=0.05)
    assert main(["compare", first, "--later", same]) == 0
    assert "fitted on all samples, judged on later ones" in capsys.readouterr().out


def test_later_samples_have_to_be_of_the_same_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = keep(tmp_path / "a.csv", measured("E2", 60, 3))
    far = points_of([Load(50, 50, 2**24, 1), LOAD])
    some = keep(tmp_path / "some.csv", Samples(far, np.ones(2)))
    none = keep(tmp_path / "none.csv", Samples(far[:1], np.ones(1)))
    assert main(["compare", first, "--later", some, some]) == 1
    assert "2 files for 1 stores" in capsys.readouterr().err
    assert main(["compare", first, "--later", none]) == 1
    assert "none.csv: no load lies where the store was measured" in capsys.readouterr().err
    assert main(["compare", first, "--later", some, "--json"]) == 0
    assert "1 loads outside what was measured are left out" in capsys.readouterr().err
