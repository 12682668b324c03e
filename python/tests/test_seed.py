"""`intarsia seed`: what a profile says, what is found, and that nothing is left behind."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from intarsia.seed import __main__ as command
from intarsia.seed import (
    compute,
    effects,
    home,
    leases,
    links,
    passthrough,
    probe,
    rounds,
    samples,
    together,
    watch,
)
from intarsia.seed.errors import SeedError
from intarsia.seed.profile import PLACES, Made, numbers_of, profile_of
from intarsia.seed.remote import Remote
from intarsia.seed.rounds import Measurement, Plan
from intarsia.seed.statistics import estimate, thinned
from requirements import built_binary

MIB = probe.MIB
QUICK = ("--seconds", "0.2", "--size", "2MiB", "--slots", "2", "--quiet")


def seed(*words: object) -> int:
    return command.main([str(word) for word in words])


def predicted(*words: object) -> dict[str, Any]:
    """What `intarsia predict` says, as JSON."""
    called = [str(word) for word in (built_binary(), *words)]
    done = subprocess.run(called, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def means(**changed: float) -> dict[str, float]:
    """Times of a store that takes 10 µs a call and 1 ns a byte to write, half of that to read."""
    made = {}
    for kind, request_s, byte_s in (
        ("write", 1e-5, 1e-9),
        ("cold", 1e-5, 5e-10),
        ("warm", 0, 1e-10),
    ):
        for size in probe.CALLS:
            made[f"{kind}_{size}"] = request_s + size * byte_s
    made |= {"create": 5e-5, "first_write": 2.4096e-5, "close_write": 1e-6}
    return made | {"open": 3e-6, "close_read": 1e-6} | changed


def measurement(by_round: list[dict[str, float]]) -> Measurement:
    found = Measurement(8 * MIB)
    for one in by_round:
        found.add({name: [seconds] for name, seconds in one.items()})
    return found


def test_a_profile_says_what_was_put_into_the_times() -> None:
    numbers = numbers_of(means())
    assert numbers["write.request_seconds"] == pytest.approx(1e-5)
    assert numbers["write.bytes_per_second"] == pytest.approx(1e9)
    assert numbers["read.bytes_per_second"] == pytest.approx(2e9)
    assert numbers["warm"] == pytest.approx(1e10)
    assert numbers["manager.open_seconds"] == pytest.approx(4e-6)
    # What the first write of a file costs more than another one belongs to making the file.
    assert numbers["manager.allocate_seconds"] == pytest.approx(6e-5)
    assert numbers["manager.commit_seconds"] == pytest.approx(1e-6)


def test_another_host_gives_the_link_and_its_latency() -> None:
    far = {f"far_{size}": size * 1e-8 for size in probe.CALLS}
    numbers = numbers_of(means(far_open=2.03e-4, far_stat=1e-4, **far))
    assert numbers["link.bytes_per_second"] == pytest.approx(1e8)
    assert numbers["network.latency_seconds"] == pytest.approx(1e-4)
    assert numbers["network.burst_bytes"] == 0
    # A file of 256 KiB comes as soon as one of 192 KiB at the rate of large ones.
    burst = means(far_open=2e-4, far_stat=1e-4, placed_far=2e-4 + 196_608e-8, **far)
    assert numbers_of(burst)["network.burst_bytes"] == pytest.approx(65_536)
    # What waits for 5 ms on a full link waits for as many bytes as cross it then.
    busy = means(far_open=2e-4, busy_wait=5e-3, **far)
    assert numbers_of(busy)["network.queue_bytes"] == pytest.approx(500_000)
    assert set(numbers) < set(PLACES)


def test_the_wait_for_a_full_link_is_that_of_calls_that_cross_it_once() -> None:
    # The share of calls that were disturbed is no time.
    idle = {"stat": 1e-4, "open": 2e-4, "rename": 5e-4, "disturbed": 0.2}
    stat, opened = (
        [2e-4, 2.17e-2, 3e-4, 9.6e-2, 9e-3, 1e-4],
        [2e-4, 2.25e-2, 1e-4, 2e-4, 3e-4, 1e-4],
    )
    rename = [6.55e-2, 2.15e-2, 4.35e-2, 4.34e-2, 2.18e-2, 6e-4]
    busy = {"stat": stat, "open": opened, "rename": rename}
    assert links.one_wait(idle, busy) == pytest.approx([2.1e-2, 2.13e-2, 2.16e-2, 2.23e-2])
    assert links.one_wait(idle, {}) == []
    # Nothing waits where the link is not full.
    calm = {"stat": [1e-4, 2e-4], "open": [1e-4, 3e-4], "rename": [6e-4, 8e-4]}
    assert links.one_wait(idle, calm) == [0.0]


def placed(near: tuple[float, float, float, float], count: int = 40) -> Measurement:
    """A measurement of so many files; `near` are the shares of calls that cross no link: own reads,
    reads and writes of another host, and reads of what that wrote."""
    found = Measurement(8 * MIB)
    kinds = ("placed_read", "placed_far", "placed_far_write", "placed_back")
    for number in range(count):
        times = {}
        for kind, share in zip(kinds, near, strict=True):
            is_near = number * 7 % count < share * count
            times[kind] = [(2e-3 if is_near else 8e-2) * (1 + number % 5 / 20)]
        is_here = number * 7 % count < near[0] * count
        times |= {name: [one] for name, one in means().items()}
        times[f"cold_{MIB}"] = [5e-4 if is_here else 8.05e-2]
        times[f"write_{MIB}"] = [1e-3 if is_here else 8.1e-2]
        times[f"far_{MIB}"] = [8e-2 if number % 4 else 5e-4]
        found.add(times)
    return found


@pytest.mark.parametrize(
    ("near", "expected"),
    [
        ((1.0, 0.0, 1.0, 0.0), "local"),
        ((0.25, 0.25, 0.25, 0.25), "spread"),
        ((0.5, 0.5, 0.5, 0.5), "spread"),
        ((1.0, 0.0, 0.0, 1.0), "central"),
        ((0.0, 1.0, 1.0, 0.0), "central"),
    ],
)
def test_where_a_store_puts_files_is_found_from_two_hosts(
    near: tuple[float, float, float, float], expected: str
) -> None:
    found = placed(near)
    assert home.placement(found) == expected
    typical, by_round = home.by_mode(found)
    if expected == "spread":
        # Of files here and of files elsewhere, each by itself, not the mean of both.
        assert typical[f"cold_{MIB}"] == pytest.approx(5e-4)
        assert typical[f"far_{MIB}"] == pytest.approx(8e-2)
        assert {one[f"cold_{MIB}"] for one in by_round} == {typical[f"cold_{MIB}"]}
    if near[0] == 0:
        # No file lies here: what is left of a call is without its link.
        assert typical[f"write_{MIB}"] < 3e-3
        assert typical[f"cold_{MIB}"] < 3e-3


def test_without_a_link_that_is_seen_a_store_is_local() -> None:
    assert home.placement(measurement([means()] * 5)) == "local"
    alike = Measurement(8 * MIB)
    for number in range(20):
        kinds = ("placed_read", "placed_far", "placed_far_write", "placed_back")
        alike.add({kind: [1e-3 * (1 + number % 7 / 10)] for kind in kinds})
    assert home.placement(alike) == "local"


@pytest.mark.parametrize(("again_s", "keeps"), [(1.9e-2, False), (3e-4, True)])
def test_what_a_reader_keeps_of_a_striped_file_is_seen(again_s: float, keeps: bool) -> None:
    plan, made = Plan(Path("/tmp")), Made("x", 2, None, "memory", ())
    far = {f"far_{size}": size * 1e-8 for size in probe.CALLS} | {"far_open": 1e-4}
    told = means(dealt_far=2e-2, dealt_again=again_s, **far)
    profile = profile_of(measurement([told | {rounds.DISTURBED: 0.0}] * 3), plan, made)
    assert profile["client"]["keeps_striped"] is keeps
    without = profile_of(measurement([means(**{rounds.DISTURBED: 0.0})] * 3), plan, made)
    assert without["client"]["keeps_striped"]


def test_requests_to_tiers_and_messages_have_samples_with_the_mean_that_was_measured() -> None:
    found = Measurement(8 * MIB)
    for number in range(30):
        late = 1.0 + (number % 10 == 9)
        told = means(**{f"first_{size}": 1e-3 + size * 2e-9 for size in probe.CALLS})
        told |= {f"far_{size}": size * 1e-8 for size in probe.CALLS}
        times = {name: [seconds] for name, seconds in told.items()} | {rounds.DISTURBED: [0.0]}
        calls = [1e-5 * late * (1 + call % 5 / 10) for call in range(20)]
        times["write_4096"] = [one + 4096e-9 for one in calls]
        times["far_open"] = [3e-6 + 2e-4 * late * (1 + call % 3) for call in range(20)]
        found.add(times)
    found.facts = [{"processors": [2.0], "memory_bytes": [1e9]}]
    plan = Plan(Path("/tmp"), Remote(Path("/tmp")))
    profile = profile_of(found, plan, Made("x", 2, None, None, ()))
    numbers = profile["measured"]["numbers"]
    for place in ("tiers.0.write.request_seconds", "network.latency_seconds"):
        drawn: Any = profile
        for part in place.split("."):
            drawn = drawn[int(part) if part.isdecimal() else part]
        name = place.removeprefix("tiers.0.")
        assert statistics.mean(drawn["samples"]) == pytest.approx(numbers[name]["value"], rel=1e-9)
        assert len(drawn["samples"]) == 200
        # One in ten is twice as late, and stays so.
        high, low = drawn["samples"][-1], drawn["samples"][0]
        assert high / low > 2.5
        assert high > statistics.quantiles(drawn["samples"], n=10)[-2]
    # All alike is a number, as is what tells nothing.
    assert (
        profile["tiers"][0]["read"]["request_seconds"] == numbers["read.request_seconds"]["value"]
    )


def test_samples_of_a_store_that_spreads_files_are_of_files_that_lie_here() -> None:
    found = placed((0.5, 0.5, 0.5, 0.5))
    for number, seconds in enumerate(found.times["cold_4096"]):
        found.times["cold_4096"][number] = seconds * (1 if number % 2 else 100) * (1 + number / 100)
    numbers = {"read.request_seconds": 1e-5, "read.bytes_per_second": 1e12}
    drawn = samples.of_requests(found, numbers)["read.request_seconds"]["samples"]
    assert len(drawn) == 20
    assert statistics.mean(drawn) == pytest.approx(1e-5, rel=1e-9)
    assert max(drawn) < 3 * min(drawn)


def test_a_profile_says_what_it_was_told() -> None:
    plan, made = Plan(Path("/tmp")), Made("x", 2, 1e8, "ssd", ())
    rows = [means(dealt_far=2e-2, dealt_again=1e-2, **{rounds.DISTURBED: 0.0})] * 3
    said = profile_of(measurement(rows), plan, made)["provenance"]["told"]
    assert said["host.in_bytes_per_second"] == said["host.out_bytes_per_second"] == "--link"
    assert said["tiers.0.class"] == "--class"
    assert said["client.opens_parts"] == "clients of Intarsia do so"
    assert "user.intarsia.place=stripe:2" in said["client.keeps_striped"]
    # What is not in the profile, or measured, is not told.
    assert "host.power" not in said
    assert not {place for places in PLACES.values() for place in places} & said.keys() - {
        "host.in_bytes_per_second",
        "host.out_bytes_per_second",
    }
    far = {f"far_{size}": size * 1e-8 for size in probe.CALLS} | {"far_open": 1e-4}
    remote = Plan(Path("/tmp"), Remote(Path("/tmp")), power=Path("watts.json"))
    found = measurement([means(**far, **{rounds.DISTURBED: 0.0})] * 3)
    found.power = {"idle_watts": 90}
    found.facts = [{"processors": [2.0], "memory_bytes": [1e9]}]
    said = profile_of(found, remote, Made("x", 2, None, None, ()))["provenance"]["told"]
    assert "host.in_bytes_per_second" not in said
    assert "client.opens_parts" not in said
    assert said["host.power"] == "--power watts.json"
    assert said["tiers.0.class"] == "the device, as the kernel says"


def test_copies_on_several_hosts_are_spread() -> None:
    found = Measurement(8 * MIB)
    for number in range(20):
        # Some of a file is here, some elsewhere, whoever wrote it.
        seconds = 6e-3 * (1 + number % 4)
        kinds = ("placed_read", "placed_far", "placed_far_write", "placed_back")
        times = {name: [one] for name, one in means(**dict.fromkeys(kinds, seconds)).items()}
        found.add(times | {f"far_{MIB}": [8e-2]})
    assert home.placement(found) == "spread"


def test_bytes_that_are_sent_at_the_close_belong_to_writing() -> None:
    numbers = numbers_of(means(close_mib=8.0001e-2))
    assert MIB / numbers["write.bytes_per_second"] == pytest.approx(8.1e-2, rel=0.02)


def test_what_several_get_done_together_is_a_gain_of_its_own_kind() -> None:
    together = {"names_by_1": 4e-5, "names_by_2": 4e-5, "write_by_1": 6e-4, "write_by_2": 4e-4}
    together |= {"read_by_1": 1e-3, "read_by_2": 2e-2, "copy_by_1": 1e-4, "copy_by_2": 3e-5}
    numbers = numbers_of(means(fsync_mib=1e-2, **together), slots=2)
    assert numbers["crowding.names"] == pytest.approx(1.0)
    assert numbers["crowding.write"] == pytest.approx(1.5)
    assert numbers["crowding.read"] == pytest.approx(0.1), "no less than a tenth"
    assert numbers["crowding.copy"] == pytest.approx(2.0), "no more than there are"
    assert numbers["write_back.bytes_per_second"] == pytest.approx(MIB * 100)
    assert not any(name.startswith("crowding") for name in numbers_of(means(**together), slots=1))


def test_processes_that_fail_tell_why_and_names_alone_stay(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        together._gated(_fails, [str(tmp_path), str(tmp_path)], MIB)
    found = together.together(str(tmp_path), 2 * MIB, 2)
    assert set(found) == {f"{kind}_by_2" for kind in ("names", "write", "read", "copy")}
    assert all(seconds[0] > 0 for seconds in found.values())
    lanes = sorted(path.name for path in tmp_path.iterdir())
    assert lanes == ["lane-0-of-2", "lane-1-of-2"]
    assert not list(tmp_path.glob("*/data"))


def test_names_are_removed_after_all_were_made(tmp_path: Path) -> None:
    found = probe.metadata(str(tmp_path), 8)
    assert len(list((tmp_path / "names").iterdir())) == 8
    assert "unlink" not in found
    assert len(found["create"]) + len(found["rename"]) > 2
    found = probe.removal(str(tmp_path))
    assert {"unlink", "create_after", "mkdir", "rmdir"} <= set(found)
    assert not (tmp_path / "names").exists()


def test_first_bytes_of_a_cold_file_have_a_line_of_their_own() -> None:
    assert not any("first" in name for name in numbers_of(means()))
    first = {f"first_{size}": 1e-3 + size * 2e-9 for size in probe.CALLS}
    numbers = numbers_of(means(**first))
    assert numbers["read.first.request_seconds"] == pytest.approx(1e-3)
    assert numbers["read.first.bytes_per_second"] == pytest.approx(5e8)


def course(seconds: list[float]) -> dict[str, float]:
    """What is told of a file of which each MiB took so long."""
    return probe.told_course(list(itertools.accumulate(seconds)))


def test_a_device_that_slows_down_after_a_burst_is_told_with_the_burst() -> None:
    first = {f"first_{size}": 1e-3 + size * 1e-9 for size in probe.CALLS}
    fast, slow = MIB * 1e-9, 1e-2
    times = means(**first, **course([fast] * 10 + [slow] * 54))
    numbers = numbers_of(times)
    assert numbers["read.burst_bytes"] == pytest.approx(10 * MIB)
    assert numbers["read.burst_bytes_per_second"] == pytest.approx(1e9)
    assert numbers["read.bytes_per_second"] == pytest.approx(MIB / slow)
    found = {one.name: one for one in effects.effects(measurement([times] * 3))}
    assert found["burst"].is_there
    assert found["burst"].ratio.mean == pytest.approx(slow / fast)
    made = profile_of(measurement([times] * 3), Plan(Path("/tmp")), Made("x", 1, None, None, ()))
    assert made["tiers"][0]["read"]["burst"] == {
        "bytes": pytest.approx(10 * MIB),
        "bytes_per_second": pytest.approx(1e9),
    }


@pytest.mark.parametrize("seconds", [[1e-2] * 32, [1e-3] * 32, [5e-2] + [1e-3] * 31])
def test_a_device_of_one_rate_has_no_burst(seconds: list[float]) -> None:
    first = {f"first_{size}": 1e-3 + size * 1e-9 for size in probe.CALLS}
    times = means(**first, **course(seconds))
    assert not any("burst" in name for name in numbers_of(times))
    found = {one.name: one for one in effects.effects(measurement([times] * 3))}
    assert not found["burst"].is_there


def test_the_course_of_reading_is_measured_and_nothing_stays(tmp_path: Path) -> None:
    found = probe.course(str(tmp_path), 16 * MIB)
    assert {"early_mib", "late_mib", "burst_s"} <= set(found)
    assert found["late_mib"][0] > 0
    assert not list(tmp_path.iterdir())


def _fails(_path: str, _size: int) -> None:
    raise OSError(errno.ENOSPC, "No space left")


def test_effects_are_found_from_the_times_alone() -> None:
    times = means(**{f"over_{MIB}": 5e-4, "anywhere_65536": 4e-4, "fsync_mib": 2e-3})
    found = {one.name: one for one in effects.effects(measurement([times] * 3))}
    assert found["page cache"].is_there
    assert found["page cache"].ratio.mean == pytest.approx(5.1, abs=0.1)
    assert found["read-ahead"].is_there
    assert found["first touch"].is_there
    assert found["buffered writes"].is_there
    assert "removed names" not in found
    assert "page cache of other hosts" not in found
    far = {**times, f"far_{MIB}": 4e-2, f"again_{MIB}": 1e-4}
    found = {one.name: one for one in effects.effects(measurement([far] * 3))}
    assert found["page cache of other hosts"].is_there
    again = {**times, "create_after": 2 * times["create"]}
    found = {one.name: one for one in effects.effects(measurement([again] * 3))}
    assert found["removed names"].is_there
    memory = means(**{f"cold_{MIB}": 1.05e-4, f"over_{MIB}": 1.06e-3, "fsync_mib": 0.0})
    found = {one.name: one for one in effects.effects(measurement([memory] * 3))}
    assert not any(
        found[name].is_there for name in ("page cache", "first touch", "buffered writes")
    )


def test_what_another_host_has_just_changed_is_asked_for_again() -> None:
    leased = {"changed_stat": 4e-4, "calm_stat": 1e-6, "changed_open": 2e-6, "calm_open": 2e-6}
    leased |= {"changed_create": 9e-4, "calm_create": 3e-4, "taken_create": 5e-4}
    times = means(held_create=5e-4, **leased)
    found = {one.name: one for one in effects.effects(measurement([times] * 3))}
    assert found["metadata leases, stat"].is_there
    assert "(400.0 µs instead of 1.0 µs)" in found["metadata leases, stat"].text
    assert not found["metadata leases, open"].is_there
    assert "(2.0 µs and 2.0 µs)" in found["metadata leases, open"].text
    assert found["metadata leases, create"].ratio.mean == pytest.approx(3.0)
    assert not found["metadata leases, change"].is_there
    assert found["metadata leases, change"].times == ("taken_create", "held_create")


@pytest.mark.parametrize(
    ("seconds", "is_there", "said"),
    [
        ((1.1e-6, 1.2e-6, 1.1e-6), True, "the kernel serves it by itself"),
        ((2.0e-5, 2.2e-5, 2.1e-5), False, "it asks a program or another host"),
        ((1.0e-6, 1.0e-6, 2.1e-5), False, "cannot be told"),
    ],
)
def test_small_calls_tell_whether_the_kernel_serves_them(
    seconds: tuple[float, ...], is_there: bool, said: str
) -> None:
    rows = [means(small_write=one, plain_write=1e-6) for one in seconds]
    found = {one.name: one for one in effects.effects(measurement(rows))}
    assert "kernel passthrough, reads" not in found
    assert found["kernel passthrough, writes"].is_there is is_there
    assert said in found["kernel passthrough, writes"].text
    assert "1.0 µs in a plain directory" in found["kernel passthrough, writes"].text


def test_leases_are_probed_by_both_hosts_and_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "keeps_disturbed", True)
    leases.prepare(str(tmp_path))
    changed = leases.change(str(tmp_path))
    assert len(changed["taken_create"]) == len(changed["held_create"]) == 9
    assert {path.parent.name.partition("-")[0] for path in tmp_path.glob("*/taken")} == {"changed"}
    looked = leases.look(str(tmp_path))
    for call in ("stat", "open", "create"):
        assert len(looked[f"changed_{call}"]) == len(looked[f"calm_{call}"]) == 3


def test_small_calls_leave_nothing_in_either_directory(tmp_path: Path) -> None:
    here, plain = tmp_path / "here", tmp_path / "plain"
    here.mkdir()
    plain.mkdir()
    found = passthrough.small_calls(str(here), plain)
    assert set(found) == {
        *(f"{kind}_{call}" for kind in ("small", "plain") for call in ("read", "write")),
        rounds.DISTURBED,
    }
    assert not [*here.iterdir(), *plain.iterdir()]


def test_an_effect_that_the_noise_can_explain_is_none() -> None:
    rows = [means(**{f"cold_{MIB}": seconds}) for seconds in (1e-4, 1e-4, 1e-4, 8e-4)]
    found = {one.name: one for one in effects.effects(measurement(rows))}
    assert found["page cache"].ratio.mean > 1.2
    assert not found["page cache"].is_there


def test_a_large_effect_is_found_in_two_rounds_that_are_not_alike() -> None:
    far = {f"far_{MIB}": 0.2, "far_open": 1e-4}
    rows = [means(**far, **{f"again_{MIB}": seconds}) for seconds in (1e-4, 2e-4)]
    found = {one.name: one for one in effects.effects(measurement(rows))}
    assert found["page cache of other hosts"].is_there


def test_the_queue_of_a_link_is_the_fullest_that_was_seen() -> None:
    far = {f"far_{size}": size * 1e-8 for size in probe.CALLS} | {"far_open": 1e-4}
    rows = [means(busy_wait=seconds, **far) for seconds in (2e-4, 1.3e-3)] + [means(**far)]
    profile = profile_of(
        measurement([one | {rounds.DISTURBED: 0.0} for one in rows]),
        Plan(Path("/tmp")),
        Made("x", 2, None, "memory", ()),
    )
    assert profile["network"]["queue_bytes"] == pytest.approx(130_000)
    told = profile["measured"]["numbers"]["network.queue_bytes"]
    assert told["by_round"] == [told["value"]] * 3
    assert told["half_width_95"] == 0


def test_a_link_is_filled_in_two_rounds_for_a_part_of_the_time() -> None:
    found = measurement([means()])
    found.first = {f"far_{MIB}": 0.1}
    plan = Plan(Path("/tmp"), remote=Remote(Path("/tmp")), seconds=24.0)
    sizes = [rounds._busy_bytes(plan, Path("/tmp"), number, found) for number in range(4)]
    assert sizes == [0, 20 * MIB, 20 * MIB, 0]
    alone = Plan(Path("/tmp"), seconds=24.0)
    assert rounds._busy_bytes(alone, Path("/tmp"), 1, found) == 0


def test_intervals_are_over_rounds() -> None:
    assert estimate([1.0]).relative == float("inf")
    assert estimate([2.0, 2.0, 2.0]).relative == 0.0
    found = measurement([means(create=seconds) for seconds in (1e-5, 2e-5, 3e-5)])
    assert "create" in found.imprecise(0.05)
    assert "open" not in found.imprecise(0.05)


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_it_repeats_until_all_is_known_well_enough(
    noise: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(
        _plan: Plan, _place: Path, number: int, _size: int, _busy: int = 0
    ) -> dict[str, list[float]]:
        sign = 1 if number % 2 else -1
        return {
            name: [seconds] for name, seconds in means(create=5e-5 * (1 + sign * noise)).items()
        }

    monkeypatch.setattr(rounds, "_round", noisy)
    monkeypatch.setattr(probe, "removal", lambda _: {"unlink": [1e-6], rounds.DISTURBED: [0.0]})
    found = rounds.measure(Plan(tmp_path, size_bytes=2 * MIB), lambda _: None)
    assert not found.imprecise(0.05)
    before = measurement([{"create": one} for one in found.means["create"][:-1]])
    # One round less would not do, unless there were as few as there may be.
    assert len(found.means["create"]) == 5 or before.imprecise(0.05)
    assert (len(found.means["create"]) > 20) == (noise > 0.1)


def test_thinned_values_keep_the_mean() -> None:
    values = [float(number % 97) ** 2 for number in range(10_000)]
    kept = thinned(values, 200)
    assert len(kept) == 200
    assert sum(kept) / 200 == pytest.approx(sum(values) / len(values), rel=1e-9)


def test_calls_that_others_disturbed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    switches = iter([0, 0, 0, 1, 1, 1])
    monkeypatch.setattr(watch, "_switches", lambda: next(switches))
    monkeypatch.setattr(watch, "_waited_ns", lambda: None)
    timed = watch.Watch()
    for _ in range(3):
        timed.start()
        timed.stop("call")
    times = timed.times()
    assert len(times["call"]) == 2
    assert times["disturbed"] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(("waited_s", "is_disturbed"), [(2.0, 1.0), (1e-5, 0.0)])
def test_a_short_wait_for_a_processor_spoils_no_long_call(
    waited_s: float, is_disturbed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches, waited = iter([0, 1]), iter([0, int(waited_s * 1e9)])
    clock = iter([10.0, 11.0])
    monkeypatch.setattr(watch, "_switches", lambda: next(switches))
    monkeypatch.setattr(watch, "_waited_ns", lambda: next(waited))
    monkeypatch.setattr("intarsia.seed.watch.time.perf_counter", lambda: next(clock))
    timed = watch.Watch()
    timed.start()
    timed.stop("call")
    assert timed.times() == {"call": [1.0], "disturbed": [is_disturbed]}


def test_a_directory_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    place, out = tmp_path / "place", tmp_path / "profile.json"
    place.mkdir()
    (place / "mine").write_text("stays")
    assert seed(place, *QUICK, "--out", out) == 0
    assert [one.name for one in place.iterdir()] == ["mine"]
    profile = json.loads(out.read_text())
    assert profile["provenance"]["source"] == "measured"
    for name in ("host", "kernel", "measured_at", "command", "program", "note"):
        assert profile["provenance"][name]
    told = profile["measured"]
    for name in ("create", "open", "stat", "unlink", "mkdir", "readdir_entry", f"write_{MIB}"):
        assert told["seconds"][name]["mean"] > 0
    assert len(told["numbers"]["warm"]["by_round"]) == told["rounds"] >= 2
    assert profile["host"]["slots"] == 2


def test_another_mount_point_is_measured_through_a_program(tmp_path: Path) -> None:
    plan = Plan(tmp_path, Remote(tmp_path, ("env",)), seconds=0.2, slots=1, size_bytes=2 * MIB)
    found = rounds.measure(plan, lambda _: None)
    profile = profile_of(found, plan, Made("two", 2, None, None, ["intarsia", "seed"]))
    # Where rounds take unlike long, the files look spread, and the profile leaves some rounds out.
    typical, _ = home.by_mode(found)
    assert profile["host"]["in_bytes_per_second"] == pytest.approx(MIB / typical[f"far_{MIB}"])
    assert profile["client"]["outstanding_chunks"] > 1
    sought = {one["name"] for one in profile["measured"]["effects"]}
    assert {f"metadata leases, {call}" for call in ("stat", "open", "create", "change")} <= sought
    assert {"kernel passthrough, reads", "kernel passthrough, writes"} <= sought
    assert not list(tmp_path.iterdir())


def of_hosts(slower: tuple[float, float], **facts: float) -> tuple[Measurement, Plan]:
    """Three hosts, of which the last computes and reads so many times slower, in rounds by turns.

    `facts` change what the kernel of the last one says.
    """
    found = Measurement(8 * MIB)
    for number in range(8):
        times = means(compute=1e-3, far_compute=1e-3, far_open=1e-4, **{rounds.DISTURBED: 0.0})
        for size in probe.CALLS:
            times[f"far_{size}"] = size * 1e-8
        times[f"again_{MIB}"] = times[f"host_2_again_{MIB}"] = 2e-4
        times["host_2_compute"] = 1e-3 * slower[number % 2]
        times[f"host_2_far_{MIB}"] = MIB * 1e-8 * slower[number % 2]
        found.add({name: [seconds] for name, seconds in times.items()})
    usual = {"processors": [2.0], "memory_bytes": [float(compute.memory_bytes())]}
    found.facts = [usual, usual | {name: [one] for name, one in facts.items()}]
    other = Remote(Path("/tmp"), ("ssh", "n2"))
    return found, Plan(Path("/tmp"), other, (Remote(Path("/tmp"), ("ssh", "n3")),), slots=2)


def test_hosts_of_one_kernel_share_its_processors() -> None:
    made = Made("x", 4, None, None, ())

    def shared(*boots: float | None) -> Any:
        found, plan = of_hosts((1.0, 1.0))
        there = [{} if one is None else {"boot": [one]} for one in boots]
        found.facts = [facts | boot for facts, boot in zip(found.facts, there, strict=True)]
        return profile_of(found, plan, made).get("shared_processors")

    here = float(compute.boot())
    assert here > 0
    assert compute.facts("", 0)["boot"] == [here]
    assert shared(here, here) == compute.processors()
    assert shared(here, here + 1) is None
    assert shared(here, None) is None
    # Nobody looked at another host.
    profile = profile_of(measurement([means()] * 3), Plan(Path("/tmp")), made)
    assert "shared_processors" not in profile


def test_what_a_name_costs_that_another_host_hears_of_is_in_the_profile() -> None:
    row = means(held_create=4e-3, **{rounds.DISTURBED: 0.0})
    plan, made = Plan(Path("/tmp")), Made("x", 2, 1e8, None, ())
    manager = profile_of(measurement([row] * 3), plan, made)["manager"]
    surplus = row["first_write"] - row["write_4096"]
    assert manager["allocate_shared_seconds"]["samples"] == pytest.approx([4e-3 + surplus] * 3)
    manager = profile_of(measurement([means()] * 3), plan, made)["manager"]
    assert "allocate_shared_seconds" not in manager


def test_hosts_that_differ_beyond_their_intervals_are_unlike_in_that() -> None:
    found, plan = of_hosts((2.0, 2.02), processors=4.0, memory_bytes=1e6)
    profile = profile_of(found, plan, Made("x", 4, None, None, ()))
    (unlike,) = profile["unlike_hosts"]
    link = profile["host"]["in_bytes_per_second"]
    assert unlike == {
        "numbers": [2],
        "slots": 4,
        "speed": pytest.approx(0.5, rel=0.02),
        "in_bytes_per_second": pytest.approx(link / 2, rel=0.02),
        "out_bytes_per_second": pytest.approx(link / 2, rel=0.02),
        "cache_bytes": 1_000_000,
    }
    assert "unlike_hosts" in profile["provenance"]["told"]
    first, second = profile["measured"]["hosts"]
    assert first["through"] == "ssh n2"
    assert first["times_as_fast"]["speed"]["mean"] == pytest.approx(1.0)
    assert second["processors"] == 4
    assert second["times_as_fast"]["cache"]["mean"] == pytest.approx(1.0)
    # Slots that the command line names are those of each host.
    named = dataclasses.replace(plan, has_told_slots=True)
    (unlike,) = profile_of(found, named, Made("x", 4, None, None, ()))["unlike_hosts"]
    assert "slots" not in unlike


def test_hosts_within_their_intervals_or_the_precision_are_alike() -> None:
    for slower, precision in (((2.5, 0.6), 0.05), ((1.04, 1.04), 0.05), ((2.0, 2.0), 3.0)):
        found, plan = of_hosts(slower)
        plan = dataclasses.replace(plan, precision=precision)
        assert "unlike_hosts" not in profile_of(found, plan, Made("x", 4, None, None, ()))


def test_the_model_reads_unlike_hosts_as_they_are_written(tmp_path: Path) -> None:
    found, plan = of_hosts((2.0, 2.0))
    profile = profile_of(found, plan, Made("x", 4, None, None, ()))
    work = {"format": "intarsia-workload", "version": 1, "name": "w", "files": []}
    work["tasks"] = [{"name": f"t{number}", "compute_seconds": 10} for number in range(6)]
    (tmp_path / "p.json").write_text(json.dumps(profile))
    (tmp_path / "w.json").write_text(json.dumps(work))
    words = ["predict", tmp_path / "w.json", "--profile", tmp_path / "p.json", "--json"]
    words += ["--hosts", "3", "--scheduler", "workqueue"]
    made = predicted(*words)
    assert made["makespan_seconds"]["mean"] == pytest.approx(20, rel=0.01)


def test_all_hosts_of_a_store_are_measured_by_one_command(tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    place = tmp_path / "place"
    place.mkdir()
    words = ("--remote", place, "--through", "env", "--through", "env A=1", "--out", out)
    assert seed(place, *QUICK, *words) == 0
    profile = json.loads(out.read_text())
    assert profile["hosts"] == 3
    first, second = profile["measured"]["hosts"]
    assert (first["number"], first["through"]) == (1, "env")
    assert (second["number"], second["through"]) == (2, "env A=1")
    assert set(first["times_as_fast"]) == {"speed"}
    assert set(second["times_as_fast"]) == {"speed", "link", "cache"}
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", []),
        ("--remote a", [("a", ())]),
        ("--remote a --remote b", [("a", ()), ("b", ())]),
        ("--remote a --through x --through y", [("a", ("x",)), ("a", ("y",))]),
        ("--remote a --through x --remote b --through y", [("a", ("x",)), ("b", ("y",))]),
    ],
)
def test_remote_hosts_are_as_the_command_names_them(
    words: str, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    given = command.parser().parse_args([".", *words.split()])
    found = [(str(one.directory), one.through) for one in command._remotes(given)]
    assert found == expected


def test_another_directory_is_no_other_host(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plan = Plan(tmp_path / "a", Remote(tmp_path / "b"), seconds=0.2, size_bytes=2 * MIB)
    with pytest.raises(SeedError, match="is it the same directory"):
        rounds.measure(plan, lambda _: None)
    assert not list((tmp_path / "a").iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("/nonexistent",), "/nonexistent: no directory"),
        (("/proc",), "/proc: "),
    ],
)
def test_what_cannot_be_measured_is_said(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert seed(*words, *QUICK) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hosts", "4"), "assume its --link"),
        (("--through", "ssh n2"), "give --remote too"),
        (("--remote", "a", "--remote", "b", "--through", "x"), "2 of --remote and 1 of --through"),
        (("--remote", "a", "--remote", "b", "--hosts", "2"), "3 are measured"),
        (("--size", "12"), "a size of 1 MiB or more"),
        (("--precision", "0"), "a number above 0"),
    ],
)
def test_command_lines_that_cannot_be_meant(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        seed(tmp_path, *words)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_too_little_room_is_said_before_it_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.statvfs_result((4096, 4096, 100, 10, 10, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(SeedError, match="smaller --size"):
        rounds.measure(Plan(tmp_path, size_bytes=64 * MIB), lambda _: None)
    assert not list(tmp_path.iterdir())


def test_a_store_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(probe, "metadata", fail)
    with pytest.raises(SeedError, match=r"Input/output error\nhelp: the store or its disk failed"):
        rounds.measure(Plan(tmp_path, size_bytes=2 * MIB), lambda _: None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_measurement_leaves_nothing(number: int, code: int, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    place = tmp_path / "place"
    place.mkdir()
    words = [sys.executable, "-m", "intarsia.seed", place, "--seconds", "60", "--precision", "1e-9"]
    words += ["--size", "2MiB", "--out", out]
    # A shell that begins the tests in the background has SIGINT ignored.
    words = ["env", "--default-signal=INT", *words]
    started = subprocess.Popen([str(word) for word in words], stderr=subprocess.PIPE, text=True)
    try:
        assert started.stderr is not None
        assert "round 5" in started.stderr.readline()
        started.send_signal(number)
        assert started.wait(60) == code
    finally:
        started.kill()
        started.communicate()
    assert not list(place.iterdir())
    assert not out.exists()
