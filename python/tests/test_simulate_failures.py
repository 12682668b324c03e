import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from intarsia.simulate import failures
from intarsia.simulate.__main__ import main
from intarsia.simulate.failures import Columns, Family, Gaps, RecordError
from scipy import stats


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    return failures.lanl()


# Fitted by others before this code existed: system, shape, scale in hours (None: not given).
SYSTEMS = [
    ("20", 0.65, 9.6),
    ("18", 0.82, 6.6),
    ("2", 0.74, 11.5),
    ("19", 0.89, None),
    ("9", 0.54, None),
    ("13", 0.50, None),
]


@pytest.mark.parametrize(("system", "shape", "scale"), SYSTEMS)
def test_the_fits_of_systems_agree_with_earlier_ones(
    records: pd.DataFrame, system: str, shape: float, scale: float | None
) -> None:
    found = failures.fit(failures.system_gaps(records, system))
    assert found["shape"] == pytest.approx(shape, rel=0.02)
    if scale is not None:
        assert found["scale"] == pytest.approx(scale, rel=0.02)


@pytest.mark.parametrize(("system", "shape"), [("20", 0.48), ("18", 0.67), ("3", 0.82)])
def test_the_fits_of_nodes_without_censored_gaps_agree_with_earlier_ones(
    records: pd.DataFrame, system: str, shape: float
) -> None:
    gaps = failures.node_gaps(records, system).without_censored()
    assert failures.fit(gaps)["shape"] == pytest.approx(shape, rel=0.02)


def independent(family: Family, data: Any) -> dict[str, float]:
    """Maximum likelihood by scipy's own routines."""
    match family:
        case Family.EXPONENTIAL:
            return {"mean": stats.expon.fit(data, floc=0)[1]}
        case Family.WEIBULL:
            shape, _, scale = stats.weibull_min.fit(data, floc=0)
            return {"shape": shape, "scale": scale}
        case Family.LOG_NORMAL:
            sigma, _, scale = stats.lognorm.fit(data, floc=0)
            return {"mu": np.log(scale), "sigma": sigma}
        case Family.GAMMA:
            shape, _, scale = stats.gamma.fit(data, floc=0)
            return {"shape": shape, "scale": scale}


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("system", ["3", "9", "20"])
def test_every_family_agrees_with_an_independent_fit(
    records: pd.DataFrame, system: str, family: Family
) -> None:
    gaps = failures.system_gaps(records, system)
    found = failures.fit(gaps, family)
    for name, value in independent(family, gaps.hours).items():
        assert found[name] == pytest.approx(value, rel=0.02), name
    likelihood = found.distribution.logpdf(gaps.hours).sum()
    assert found.log_likelihood == pytest.approx(likelihood, abs=0.01)


@pytest.mark.parametrize("family", [Family.EXPONENTIAL, Family.WEIBULL, Family.LOG_NORMAL])
def test_censored_fits_agree_with_an_independent_fit(records: pd.DataFrame, family: Family) -> None:
    gaps = failures.node_gaps(records, "3")
    assert len(gaps.censored_hours) > 100
    data = stats.CensoredData(uncensored=gaps.hours, right=gaps.censored_hours)
    found = failures.fit(gaps, family)
    for name, value in independent(family, data).items():
        assert found[name] == pytest.approx(value, rel=0.02), name


def test_leaving_censored_gaps_out_makes_nodes_look_worse(records: pd.DataFrame) -> None:
    gaps = failures.node_gaps(records, "18")
    exponential = failures.fit(gaps, Family.EXPONENTIAL)
    complete = failures.fit(gaps.without_censored(), Family.EXPONENTIAL)
    assert complete.mean_hours < 0.6 * exponential.mean_hours
    # The exponential fit with censoring is the time in service by the number of failures.
    in_service = gaps.hours.sum() + gaps.censored_hours.sum()
    assert exponential.mean_hours == pytest.approx(in_service / len(gaps.hours), rel=1e-4)


def test_the_gamma_fit_of_a_long_tail_keeps_the_mean(records: pd.DataFrame) -> None:
    """A regression: repairs of weeks made the likelihood underflow."""
    gaps = failures.repair_hours(records, "9")
    found = failures.fit(gaps, Family.GAMMA)
    assert found.mean_hours == pytest.approx(gaps.hours.mean(), rel=1e-3)


def test_intervals_cover_the_truth() -> None:
    random = np.random.default_rng(7)
    inside = 0
    for _ in range(30):
        gaps = Gaps("drawn", 10 * random.weibull(0.7, size=150))
        shape = failures.fit(gaps).parameters[0]
        assert shape.low < shape.value < shape.high
        inside += shape.low <= 0.7 <= shape.high
    # Binomial with 0.95: below 24 of 30 with a probability of 0.02 %.
    assert inside >= 24


def test_goodness_accepts_the_true_family_and_rejects_another() -> None:
    gaps = Gaps("drawn", 10 * np.random.default_rng(3).weibull(0.6, size=400))
    right = failures.goodness(failures.fit(gaps, Family.WEIBULL), resamples=99)
    wrong = failures.goodness(failures.fit(gaps, Family.EXPONENTIAL), resamples=99)
    assert right is not None
    assert wrong is not None
    assert min(right.ks_p, right.ad_p) > 0.05
    assert max(wrong.ks_p, wrong.ad_p) == 0.01


def test_goodness_says_nothing_of_censored_gaps(records: pd.DataFrame) -> None:
    assert failures.goodness(failures.fit(failures.node_gaps(records, "3"))) is None


def test_zero_gaps_are_bursts(records: pd.DataFrame) -> None:
    gaps = failures.system_gaps(records, "2")
    assert gaps.zeros / (gaps.zeros + len(gaps.hours)) == pytest.approx(0.24, abs=0.005)
    sizes = failures.burst_sizes(records, "2")
    assert max(sizes) == 48
    assert sum(sizes.values()) == len(gaps.hours) + 1


def test_repairs_are_log_normal(records: pd.DataFrame) -> None:
    fits = failures.fit_all(failures.repair_hours(records, "3"))
    assert fits[0].family is Family.LOG_NORMAL


CSV = """begin,end,host
2024-01-01T00:00,2024-01-01T02:00,a
2024-01-02T00:00,,b
2024-01-01T12:00,2024-01-01T13:00,a
2024-01-04T00:00,2024-01-04T01:00,a
2024-01-05T06:00,2024-01-06T00:00,b
"""
MAPPED = Columns(started="begin", repaired="end", node="host")


def test_other_records_are_read_by_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "outages.csv"
    file.write_text(CSV)
    read = failures.read_records(file, MAPPED)
    assert list(failures.system_gaps(read).hours) == [12.0, 12.0, 48.0, 30.0]
    assert list(failures.node_gaps(read).hours) == [12.0, 60.0, 78.0]
    assert list(failures.repair_hours(read).hours) == [2.0, 1.0, 1.0, 18.0]


@pytest.mark.parametrize(
    ("line", "columns", "message"),
    [
        ("1 May,,a", MAPPED, ":7: field `begin`: '1 May' is no time of ISO 8601"),
        ("2024-02-02,2024-02-01,a", MAPPED, ":7: field `end`: 2024-02-01 is before the failure"),
        ("2024-02-02", MAPPED, ":7: not as many fields"),
        ("", Columns(started="start"), ":1: no column `start` .*Map it with --column started=NAME"),
    ],
)
def test_a_bad_record_is_named(tmp_path: Path, line: str, columns: Columns, message: str) -> None:
    file = tmp_path / "outages.csv"
    file.write_text(CSV + line)
    with pytest.raises(RecordError, match=r"outages\.csv" + message):
        failures.read_records(file, columns)


def test_what_cannot_be_fitted_is_refused(tmp_path: Path, records: pd.DataFrame) -> None:
    with pytest.raises(RecordError, match="no records of system 99; there are: 2, 3"):
        failures.system_gaps(records, "99")
    with pytest.raises(RecordError, match="drawn: no log-normal distribution fits"):
        failures.fit(Gaps("drawn", np.ones(5)), Family.LOG_NORMAL)
    file = tmp_path / "few.csv"
    file.write_text("started\n2024-01-01\n2024-01-02\n")
    with pytest.raises(RecordError, match="1 gaps above zero are too few"):
        failures.system_gaps(failures.read_records(file, Columns()))
    file.write_text("started\n2024-01-01\n2024-01-02\n2024-01-03\n2024-01-04\n")
    with pytest.raises(RecordError, match="all 3 gaps are 24 h"):
        failures.system_gaps(failures.read_records(file, Columns()))
    file.write_text("started\n")
    with pytest.raises(RecordError, match="no records"):
        failures.read_records(file, Columns())
    with pytest.raises(RecordError, match="cannot be read"):
        failures.read_records(tmp_path / "missing.csv", Columns())


def test_the_command_writes_a_table_a_scenario_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, picture = tmp_path / "fit.toml", tmp_path / "fit.svg"
    words = ["fit", "--system", "3", "--resamples", "19", "--family", "weibull"]
    assert main([*words, "--out", str(scenario), "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "system 3: 294 gaps above zero" in printed
    assert "Weibull *" in printed
    table = tomllib.loads(scenario.read_text())["failures"]
    assert (table["scope"], table["nodes"]) == ("system", 128)
    assert table["lifetime"]["shape"] == pytest.approx(0.814, abs=0.002)
    assert table["repair"]["model"] == "log-normal"
    assert table["bursts"]["sizes"][0] == [1, 292.0]
    low, high = table["fit"]["intervals"]["scale_seconds"]
    assert low < 53.13 * 3600 < high
    assert picture.read_text().startswith("<?xml")
    assert (tmp_path / "fit.png").stat().st_size > 20_000


def test_an_unknown_number_of_nodes_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "outages.csv", tmp_path / "fit.toml"
    file.write_text(CSV)
    words = ["fit", "--csv", str(file), "--resamples", "9", "--out", str(out)]
    assert main([*words, "--column", "started=begin", "--column", "node=host"]) == 0
    assert "has 2, as many as failed" in capsys.readouterr().err
    assert tomllib.loads(out.read_text())["failures"]["nodes"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which system"),
        (["--system", "x"], "no records of system x"),
        (["--csv", "none.csv"], "none.csv: cannot be read"),
        (["--csv", "a.csv", "--column", "begin"], "write OURS=THEIRS"),
        (["--system", "3", "--plot", "a.pdf"], "end the name in .svg or .png"),
        (["--system", "3", "--repairs", "--out", "a.toml"], "leave out --repairs"),
    ],
)
def test_the_command_refuses_with_a_reason(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *words]) == 1
    assert message in capsys.readouterr().err


def test_records_within_a_minute_are_one_event(tmp_path: Path) -> None:
    file = tmp_path / "outages.csv"
    file.write_text(
        "started,node\n"
        "2024-01-01T00:00:10,a\n2024-01-01T00:00:45,b\n2024-01-01T00:01:20,c\n"
        "2024-01-01T06:00:00,a\n2024-01-01T06:01:00,b\n2024-01-02T00:00:00,a\n"
    )
    read = failures.read_records(file, Columns())
    gaps = failures.system_gaps(read)
    assert gaps.hours == pytest.approx([6 - 10 / 3600, 1 / 60, 18 - 1 / 60])
    assert gaps.zeros == 2
    assert failures.burst_sizes(read) == {1: 3, 3: 1}


def test_columns_with_our_names_are_found(tmp_path: Path) -> None:
    file = tmp_path / "outages.csv"
    header = "started,repaired,system,node,nodes\n"
    rows = [f"2024-01-0{day}T00:00,2024-01-0{day}T0{day}:00,big,n{day},512" for day in range(1, 7)]
    file.write_text(header + "\n".join(rows) + "\n")
    read = failures.read_records(file, Columns())
    assert list(failures.repair_hours(read, "big").hours) == [1, 2, 3, 4, 5, 6]
    assert set(read["nodes"]) == {512}
    file.write_text("started,node\n" + "\n".join(f"2024-01-0{day},a" for day in range(1, 7)))
    assert main(["fit", "--csv", str(file), "--system", "big"]) == 1


@pytest.mark.parametrize("factor", [1, 1000])
def test_times_since_1970_are_read(tmp_path: Path, factor: int) -> None:
    file = tmp_path / "outages.csv"
    times = [1_704_067_200, 1_704_110_400, 1_704_153_600.5, 1_704_326_400]
    file.write_text("started\n" + "\n".join(f"{time * factor:.10g}" for time in times))
    read = failures.read_records(file, Columns())
    assert str(read["started"].iloc[0]) == "2024-01-01 00:00:00"
    hours = failures.system_gaps(read).hours
    assert hours == pytest.approx([12, 12, 48], abs=1e-3)
    file.write_text("started\n20240101\n2024-01-01T12:00:00+02:00\n2024-01-03\n2024-01-04\n")
    hours = failures.system_gaps(failures.read_records(file, Columns())).hours
    assert list(hours) == [10, 38, 24]


@pytest.mark.parametrize("family", Family)
def test_intervals_of_few_gaps_stay_above_zero(family: Family) -> None:
    gaps = Gaps("drawn", np.array([0.02, 1.0, 3.0, 40.0]))
    for one in failures.fit(gaps, family).parameters:
        assert one.low < one.value < one.high
        assert one.low > 0 or one.unit == "ln h", one


def test_a_mean_far_from_that_of_the_records_is_said(
    records: pd.DataFrame, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gaps = failures.system_gaps(records, "20")
    assert failures.fit(gaps, Family.WEIBULL).warning is None
    warning = failures.fit(gaps, Family.LOG_NORMAL).warning
    assert warning is not None
    assert "the mean of the log-normal fit is" in warning
    words = ["fit", "--system", "20", "--resamples", "9"]
    assert main([*words, "--family", "log-normal", "--out", str(tmp_path / "f.toml")]) == 0
    printed = capsys.readouterr()
    assert "warning: system 20: the mean of the log-normal fit" in printed.err
    assert "more than 10 % off" in printed.out
    assert main([*words, "--family", "weibull"]) == 0
    assert "warning" not in capsys.readouterr().err
