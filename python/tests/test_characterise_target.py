"""Stores under test: devices that are spared, files made slower, PostMark, loads by fio."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from intarsia.characterise import samples
from intarsia.characterise.__main__ import main
from intarsia.characterise.errors import CharacteriseError
from intarsia.characterise.experiment import design_for, postmark, read_experiment
from intarsia.characterise.experiment.target import Target, Throttle, opened
from intarsia.characterise.load import Load
from intarsia.characterise.migrate import executor
from intarsia.characterise.stores import real

MIB = 2**20


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """Give a loop device of 16 MiB of which every byte is 7."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("loop devices need root and /dev/loop-control")
    image = tmp_path / "image"
    image.write_bytes(b"\7" * (16 * MIB))
    made = subprocess.run(
        ["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"no loop device can be made: {made.stderr.strip()}")
    path = Path(made.stdout.strip())
    try:
        yield path
    finally:
        subprocess.run(["losetup", "--detach", str(path)], check=True)


def is_untouched(device: Path) -> bool:
    return set(device.read_bytes()) == {7}


@needs("fio")
def test_a_device_is_only_read_unless_it_may_be_overwritten(
    device: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["measure", str(device), "--points", "2", "--groups", "0", "--seconds", "0.2"]
    words += ["--size", "16m", "--rounds", "1", "--out", str(tmp_path / "a.csv")]
    assert main(words) == 1
    assert "--overwrite-device" in capsys.readouterr().err
    assert is_untouched(device)
    (tmp_path / "a.csv.part").unlink()
    assert main([*words, "--only-reads"]) == 0
    assert is_untouched(device)
    assert (samples.read(tmp_path / "a.csv").single.points[:, 1] == 100).all()
    (tmp_path / "factors.toml").write_text(
        '[experiment]\nseconds = 0.2\nrepetitions = 1\nsize = "8m"\n'
        '[options]\nrw = "{kind}"\nbs = "{block}"\n[factors]\n'
        'kind = { low = "read", high = "randwrite" }\nblock = { low = "4k", high = "64k" }\n'
    )
    words = ["screen", str(device), "--factors", str(tmp_path / "factors.toml"), "--no-fold"]
    words += ["--out", str(tmp_path / "out")]
    assert main(words) == 1
    assert "rw=randwrite destroys what is on it" in capsys.readouterr().err
    assert is_untouched(device)
    assert main([*words, "--overwrite-device", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 4
    assert not is_untouched(device)


def test_a_device_in_use_is_refused_whatever_is_allowed(device: Path, tmp_path: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", "-F", str(device)], check=True)
    place = tmp_path / "mounted"
    place.mkdir()
    if subprocess.run(["mount", str(device), str(place)], check=False).returncode != 0:
        pytest.skip("this kernel mounts no loop device here")
    try:
        with (
            pytest.raises(CharacteriseError, match=f"is mounted on {place}"),
            opened(device, size_bytes=MIB, overwrite=True),
        ):
            pass
    finally:
        subprocess.run(["umount", str(place)], check=True)
    with opened(device, size_bytes=MIB) as target:
        assert not target.may_write
        # As long as it is measured, nobody else gets it.
        done = subprocess.run(["mount", str(device), str(place)], check=False, capture_output=True)
        assert done.returncode != 0
    with (
        pytest.raises(CharacteriseError, match="lower `size`"),
        opened(device, size_bytes=2**40, overwrite=True),
    ):
        pass


@needs("nbdkit")
@needs("fio")
def test_a_throttled_store_is_as_slow_as_asked_and_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    load, way = Load(100, 100, 4096, 1), real.Way(seconds=0.4, size_bytes=16 * MIB)
    with opened(tmp_path, size_bytes=way.size_bytes, throttle=Throttle(20, 8e6)) as target:
        assert "throttled: 20 ms a request, 8 MB/s" in target.label
        assert real.measure(target, [load], way) >= 20
        # 8 MB/s of 256 KiB are at most 31 requests a second, two at a time.
        assert real.measure(target, [Load(0, 100, 2**18, 2)], way) > 50
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@needs("nbdkit")
def test_nbdkit_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(CharacteriseError, match="nbdkit did not start"),
        opened(tmp_path, size_bytes=MIB, throttle=Throttle(at_once=-1)),
    ):
        pass
    assert not list(tmp_path.iterdir())


@needs("fio")
def test_what_is_measured_is_a_file_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, here = tmp_path / "store", tmp_path / "here"
    store.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    way = real.Way(0.2, 0.1, 16 * MIB)
    with opened(store, size_bytes=way.size_bytes) as target:
        real.measure(target, [Load(50, 50, 4096, 1), Load(0, 100, 65536, 2)], way)
        (file,) = store.iterdir()
        assert file.stat().st_size == way.size_bytes
        real.tidy(target)
    assert not list(store.iterdir())
    assert not list(here.iterdir())


@needs("fio")
def test_loads_are_measured_together_and_an_interrupted_measurement_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, out = tmp_path / "store", tmp_path / "a.csv"
    store.mkdir()
    words = ["measure", str(store), "--points", "2", "--groups", "1", "--seconds", "0.2"]
    words += ["--size", "16m", "--rounds", "2", "--out", str(out)]
    assert main(words) == 0
    first = samples.read(out)
    assert len(first.single) == 2
    assert len(first.groups) == 1
    assert (first.single.latency_ms > 0).all()
    assert not list(store.iterdir()), "its file is gone"
    assert not list(tmp_path.glob("*.part")), "nothing is left to go on with"
    assert main([*words[:1], str(tmp_path / "none"), *words[2:]]) == 1
    assert "no simulated store" in capsys.readouterr().err
    # Killed within the second of three lines.
    part = tmp_path / "a.csv.part"
    other = [*words, "--seed", "2"]
    part.write_text("[]\n")
    assert main(other) == 1
    assert "of another measurement" in capsys.readouterr().err


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A directory on which a file system is mounted."""
    place = tmp_path / "mounted"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)


def test_a_store_that_vanishes_under_its_mount_point_is_noticed(
    mounted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out, measured = tmp_path / "a.csv", []

    def measure(target: Target, loads: Sequence[Load], way: real.Way) -> float:
        measured.append(loads)
        if len(measured) == 2:
            subprocess.run(["umount", str(mounted)], check=True)
        return 1.0

    monkeypatch.setattr(real, "measure", measure)
    words = ["measure", str(mounted), "--points", "3", "--groups", "0", "--rounds", "1"]
    assert main([*words, "--out", str(out)]) == 1
    assert "has the store gone away? Mount it again" in capsys.readouterr().err
    assert len(measured) == 2, "nothing more is measured on what is below"
    assert not out.exists()
    kept = (tmp_path / "a.csv.part").read_text().splitlines()
    assert len(kept) == 2, "the plan, and what was measured before it went"
    assert main([*words, "--out", str(out)]) == 0
    assert len(samples.read(out).single) == 3


def test_a_migration_into_a_store_that_vanishes_keeps_the_source(
    mounted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "data"
    source.mkdir()
    (source / "a").write_bytes(b"1" * 1000)
    copy_all = executor._copy_all

    def copy(*words: Any) -> Any:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)
        return copy_all(*words)

    monkeypatch.setattr(executor, "_copy_all", copy)
    with pytest.raises(CharacteriseError, match="the source is complete"):
        executor.migrate(source, mounted)
    assert (source / "a").read_bytes() == b"1" * 1000


REPORT = """\
Creating files...Done
Time:
\t2 seconds total
\t1 seconds of transactions (2000 per second)

Files:
\t313 created (156 per second)
\t\tCreation alone: 50 files (50 per second)
\t\tMixed with transactions: 263 files (263 per second)
\t985 read (985 per second)
\t962 appended (962 per second)
\t313 deleted (313 per second)
\t\tDeletion alone: 100 files (100 per second)
\t\tMixed with transactions: 213 files (213 per second)

Data:
\t74.61 megabytes read (74.61 megabytes per second)
\t23.98 kilobytes written (23.98 kilobytes per second)
"""


def test_rates_of_postmark_come_from_its_counts_and_our_clock() -> None:
    found = postmark.metrics(REPORT, postmark.Phases(0.5, 0.25), 2000)
    assert found["tps"] == 8000
    assert found["create_tps"] == 4 * 263
    assert found["delete_tps"] == 4 * 213
    assert found["read_throughput"] == pytest.approx(74.61 * 2**20 / 0.25 / 1e6)
    assert found["write_throughput"] == pytest.approx(23.98 * 2**10 / 0.75 / 1e6)
    assert set(found) == set(postmark.METRICS)
    with pytest.raises(CharacteriseError, match="reports in another way"):
        postmark.metrics("", postmark.Phases(1, 1), 1)


POSTMARK = """\
[experiment]
tool = "postmark"
repetitions = 1
[options]
number = "{files}"
transactions = "{transactions}"
[factors]
files = { low = 500, high = 900 }
transactions = { low = 1000, high = 2000 }
"""


@needs("postmark")
def test_postmark_is_run_and_its_complaints_are_passed_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    factors, store = tmp_path / "factors.toml", tmp_path / "store"
    factors.write_text(POSTMARK)
    store.mkdir()
    words = ["screen", str(store), "--factors", str(factors), "--no-fold"]
    assert main([*words, "--out", str(tmp_path / "out"), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["effects"]) == set(postmark.METRICS)
    factors.write_text(POSTMARK.replace("low = 500", "low = 2"))
    assert main([*words, "--out", str(tmp_path / "few")]) == 1
    assert "out of files" in capsys.readouterr().err
    assert not list(store.iterdir())


def test_jobs_that_are_not_alike_take_the_levels_of_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "factors.toml"
    path.write_text(
        '[experiment]\njobs = "jobs"\nalike = "same"\n[options]\nbs = "{block}"\n[factors]\n'
        'block = { low = "4k", high = "64k" }\njobs = { low = 1, high = 4 }\n'
        'same = { low = "no", high = "yes" }\n'
    )
    experiment = read_experiment(path)
    design = design_for(("block", "jobs", "same"), folded=False)
    seen = {}
    for row in range(len(design.signs)):
        levels = design.run(row)
        seen[levels["jobs"], levels["same"]] = experiment.job_rows(design, row), row
    assert all(rows == [row] for key in ((-1, -1), (-1, 1)) for rows, row in [seen[key]])
    rows, row = seen[1, 1]
    assert rows == [row] * 4
    rows, row = seen[1, -1]
    assert sorted(rows) == [0, 1, 2, 3]
    assert rows[0] == row
    path.write_text(path.read_text().replace('alike = "same"', 'alike = "none"'))
    with pytest.raises(CharacteriseError, match="there is no factor none"):
        read_experiment(path)


def test_factor_files_that_come_with_it_can_be_read() -> None:
    from importlib.resources import as_file, files

    from intarsia.characterise.experiment.driver import metrics_of

    counts = {"fio": 11, "fio-published": 19, "postmark": 10}
    for name, count in counts.items():
        with as_file(files("intarsia.characterise.experiment") / f"{name}.toml") as path:
            experiment = read_experiment(path)
        assert len(experiment.factors) == count
        assert metrics_of(experiment)
