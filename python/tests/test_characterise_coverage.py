"""What benchmarks and sets of loads cover: clusters and components with known answers."""

import json
from pathlib import Path

import numpy as np
import pytest
from intarsia.characterise import design, published, samples
from intarsia.characterise.__main__ import main
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import coverage
from intarsia.characterise.load import Floats, Points
from intarsia.characterise.model.base import Samples
from intarsia.characterise.samples import Measurements


def test_components_are_found_by_how_far_they_move_the_metric() -> None:
    random = np.random.default_rng(1)
    # Three independent sources that are not normal; the metric is moved by the first and second.
    sources = random.uniform(-1, 1, (400, 3)) * np.sqrt(3)
    metric = 0.8 * sources[:, 0] + 0.6 * sources[:, 1]
    mixed = sources @ np.array([[1, 0.4, 0.1], [0.2, 1, 0.3], [0.3, 0.2, 1]])
    found = coverage.components(np.column_stack([mixed, metric]), 3, 3)
    assert sorted(found.loadings, reverse=True) == pytest.approx([0.8, 0.6, 0.0], abs=0.08)
    assert (found.stability > 0.9).all()
    noise = coverage.components(random.normal(0, 1, (12, 8)), 0, 6)
    assert noise.stability.mean() < found.stability.mean(), "a dozen normal rows have no answer"
    with pytest.raises(CharacteriseError, match="1 to 3"):
        coverage.components(mixed[:5], 0, 5)


def test_clusters_tell_what_only_one_set_reaches() -> None:
    random = np.random.default_rng(2)

    def around(*places: float) -> Floats:
        return np.array([[place + random.normal(0, 0.1)] for place in places for _ in range(6)])

    found = coverage.clusters({"a": around(0, 10), "b": around(0, 5)})
    assert found.count == 3
    assert found.silhouette > 0.9
    assert found.share("a") == found.share("b") == pytest.approx(2 / 3)
    (of_a,), (of_b,) = found.alone("a"), found.alone("b")
    assert of_a != of_b
    same = np.zeros((6, 1))
    assert coverage.clusters({"a": same, "b": same}).count == 1


def write(path: Path, points: Points) -> None:
    samples.write(path, Measurements(Samples(points, np.ones(len(points))), (), np.empty(0)))


def test_sets_of_loads_are_compared_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = np.array([published.load(name, 2).row for name in published.LOADS])
    write(tmp_path / "usual.csv", usual)
    write(tmp_path / "spread.csv", design.spread(64))
    out = tmp_path / "out"
    words = ["coverage", str(tmp_path / "usual.csv"), str(tmp_path / "spread.csv")]
    assert main([*words, "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["loads"]
    assert found["sets"]["spread"]["share"] == 1, "points that fill the space reach all of it"
    assert found["sets"]["usual"]["share"] < 1
    assert (out / "loads.svg").stat().st_size > 1000
    assert main([words[0], words[1], str(tmp_path), "--out", str(out)]) == 1
    assert "cannot be compared" in capsys.readouterr().err
    assert main([*words[:2], "--out", str(out)]) == 1
    assert "two sets" in capsys.readouterr().err
    with pytest.raises(CharacteriseError, match="8 loads"):
        coverage.independent_loads({"a": usual[:3], "b": usual[:2]})


def screen(path: Path, seed: int) -> None:
    """Write runs as `screen` does: twelve rows, and what a known rule makes of them."""
    from intarsia.characterise.experiment import plackett_burman

    signs = plackett_burman(10)
    random = np.random.default_rng(seed)
    header = {
        "experiment": {"repetitions": 1, "metrics": ["read_throughput", "write_throughput"]},
        "names": [f"knob{n}" for n in range(10)],
        "is_folded": False,
        "signs": signs.tolist(),
    }
    lines = [json.dumps(header)]
    for row, levels in enumerate(signs):
        values = {
            "read_throughput": 10 + 3 * levels[0] + random.normal(0, 0.1),
            "write_throughput": 10 + 2 * levels[1] + random.normal(0, 0.1),
        }
        run = {"row": row, "repetition": 0, "metrics": values, "problems": []}
        lines.append(json.dumps(run))
    path.mkdir()
    (path / "runs.jsonl").write_text("\n".join(lines) + "\n")


def test_benchmarks_are_compared_by_their_components(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, name in enumerate(("one", "other")):
        screen(tmp_path / name, seed)
    words = ["coverage", str(tmp_path / "one"), str(tmp_path / "other"), "--components", "4"]
    words += ["--out", str(tmp_path / "out")]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"read_throughput", "write_throughput"}
    assert found["read_throughput"]["clusters"] >= 2
    assert (tmp_path / "out/components.png").stat().st_size > 1000
    assert main(words) == 0
    assert "silhouette" in capsys.readouterr().out
    assert main([*words, "--metrics", "none"]) == 1
    assert "not every run has none" in capsys.readouterr().err
    (tmp_path / "one/runs.jsonl").write_text("{}\n")
    assert main(words) == 1
    assert "`screen` writes such a file" in capsys.readouterr().err
