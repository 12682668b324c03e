//! Hosts that fail, stragglers, second runs, and hosts that are crowded.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{Setup, assert_seconds, roughly};
use intarsia_predict::configuration::Configuration;
use intarsia_predict::model::{Prediction, predict};
use intarsia_predict::profile::{Crowding, Failures, Profile, Stragglers, WriteBack};
use intarsia_predict::search::{Change, Grid, Options, Weights, advise, gain};
use proptest::prelude::*;
use serde_json::{Value, json};

fn computing(tasks: u32, seconds: f64, app: u32) -> Setup {
    let mut setup = Setup { app, collocated: true, ..Setup::default() };
    for n in 0..tasks {
        setup = setup.raw_task(
            json!({"name": format!("t-{n}"), "stage": "all", "compute_seconds": seconds}),
        );
    }
    setup
}

fn run(setup: &Setup, profile: &Profile, configuration: &Configuration, seed: u64) -> Prediction {
    predict(&setup.workload(), profile, configuration, seed).unwrap()
}

/// A task of length t that begins anew after each failure ends, with failures at rate λ and repair r, after
/// (e^(λt) − 1)(1/λ + r) in the mean, r once for each failure.
#[test]
fn a_task_that_failures_throw_back_takes_what_renewal_theory_says() {
    let (seconds, mean_seconds, repair_seconds) = (100.0, 200.0, 30.0);
    let setup = computing(1, seconds, 1);
    let mut profile = setup.profile();
    profile.failures =
        Some(Failures { mean_seconds, shape: 1.0, repair_seconds, loses_disks: false });
    let runs = 4_000_u32;
    let found: Vec<Prediction> =
        (0..runs).map(|seed| run(&setup, &profile, &setup.configuration(), seed.into())).collect();
    let mean = found.iter().map(|run| run.makespan_seconds).sum::<f64>() / f64::from(runs);
    let failed = (seconds / mean_seconds).exp() - 1.0;
    roughly(mean, failed * (mean_seconds + repair_seconds), 0.05);
    let failures: u64 = found.iter().map(|run| run.mishaps.unwrap().host_failures).sum();
    roughly(failures as f64 / f64::from(runs), failed, 0.08);
}

#[test]
fn a_task_that_outlasts_every_host_is_refused() {
    let setup = computing(1, 1e6, 1);
    let mut profile = setup.profile();
    profile.failures =
        Some(Failures { mean_seconds: 1.0, shape: 1.0, repair_seconds: 0.0, loses_disks: false });
    let problem = predict(&setup.workload(), &profile, &setup.configuration(), 1).unwrap_err();
    assert!(problem.message.contains("'t-0' was lost 1000 times"), "{problem:?}");
}

#[test]
fn who_asks_a_host_that_is_down_waits_for_it() {
    let setup = Setup::default().file("in", 400 << 20).task(&[("read", "in")]);
    let quiet = setup.predict().makespan_seconds;
    let mut profile = setup.profile();
    profile.failures =
        Some(Failures { mean_seconds: 1e3, shape: 1.0, repair_seconds: 50.0, loses_disks: false });
    let found: Vec<f64> = (0..400)
        .map(|seed| run(&setup, &profile, &setup.configuration(), seed).makespan_seconds)
        .collect();
    assert!(found.iter().all(|seconds| *seconds >= quiet - 1e-9));
    assert!(found.iter().any(|seconds| *seconds > quiet + 40.0));
    assert!(found.iter().filter(|seconds| **seconds < quiet + 1e-6).count() > 300);
}

#[test]
fn second_runs_cut_the_tail_that_stragglers_make() {
    let setup = computing(40, 10.0, 20);
    let mut profile = setup.profile();
    profile.stragglers = Some(Stragglers { share: 0.1, slowdown: 8.0 });
    let once = setup.configuration();
    let twice = Configuration { second_run_percent: Some(150), ..once.clone() };
    let mean = |configuration: &Configuration| {
        let of = |seed| run(&setup, &profile, configuration, seed).makespan_seconds;
        (0..60).map(of).sum::<f64>() / 60.0
    };
    let (without, with) = (mean(&once), mean(&twice));
    assert!(with < 0.6 * without, "{with} {without}");
    let found = run(&setup, &profile, &twice, 3);
    assert!(found.mishaps.unwrap().second_runs > 0);
    assert!(found.tasks.iter().all(|task| task.end_seconds > task.start_seconds));
}

#[test]
fn without_mishaps_second_runs_change_nothing() {
    let setup = computing(40, 10.0, 20);
    let twice = Configuration { second_run_percent: Some(150), ..setup.configuration() };
    let found = run(&setup, &setup.profile(), &twice, 1);
    assert_seconds(found.makespan_seconds, 20.0);
    assert!(found.mishaps.is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Whatever fails, tasks end in their order, and the same seed gives the same run.
    #[test]
    fn every_task_ends_after_its_parents(
        seed in any::<u64>(), mean_seconds in 5.0_f64..100.0, shape in 0.5_f64..2.0, share in 0.0_f64..0.5,
    ) {
        let mut setup = Setup { app: 3, collocated: true, ..Setup::default() }.file("f-0", 5 << 20);
        for n in 0..6 {
            setup = setup.file(&format!("f-{}", n + 1), 3 << 20).raw_task(json!({
                "name": format!("t-{n}"), "stage": format!("s-{}", n / 3), "reads": [format!("f-{n}")],
                "compute_seconds": 2.0, "writes": [format!("f-{}", n + 1)],
            }));
        }
        let mut profile = setup.profile();
        profile.failures = Some(Failures { mean_seconds, shape, repair_seconds: 3.0, loses_disks: false });
        profile.stragglers = Some(Stragglers { share, slowdown: 3.0 });
        let configuration = Configuration { second_run_percent: Some(120), ..setup.configuration() };
        let found = run(&setup, &profile, &configuration, seed);
        for (task, times) in setup.workload().tasks.iter().zip(&found.tasks) {
            prop_assert!(times.end_seconds >= times.start_seconds + 2.0 - 1e-9);
            for parent in &task.parents {
                prop_assert!(times.start_seconds >= found.tasks[*parent].end_seconds - 1e-9);
            }
        }
        let again = run(&setup, &profile, &configuration, seed);
        prop_assert_eq!(serde_json::to_string(&found).unwrap(), serde_json::to_string(&again).unwrap());
    }
}

/// Two tasks write on one host, of which both together get one and a half times of one.
#[test]
fn writers_on_one_host_share_what_they_get_together() {
    let mut setup = Setup { collocated: true, write_seconds: 0.1, ..Setup::default() };
    for n in 0..2 {
        let name = format!("out-{n}");
        setup = setup.file(&name, 10 << 20).task(&[("write", &name)]);
    }
    let mut profile = setup.profile();
    profile.host.slots = 2;
    let crowding = Crowding { at_once: 2, names: 2.0, write: 1.5, read: 1.0, copy: 2.0 };
    profile.host.crowding = Some(crowding);
    let found = run(&setup, &profile, &setup.configuration(), 1);
    // Each asks twice for 0.5 ms, at full speed, and writes ten chunks of 0.1 s at three quarters of it.
    roughly(found.makespan_seconds, 2.0 * 500e-6 + 1.0 / 0.75, 1e-6);
    profile.host.crowding = Some(Crowding { write: 2.0, ..crowding });
    let free = run(&setup, &profile, &setup.configuration(), 1);
    roughly(free.makespan_seconds, 2.0 * 500e-6 + 1.0, 1e-6);
}

#[test]
fn one_task_alone_is_as_fast_in_a_crowd_as_without() {
    let setup = Setup { collocated: true, write_seconds: 1e-3, ..Setup::default() };
    let setup = Setup { outstanding: Some(1), ..setup };
    let setup =
        setup.file("in", 5 << 20).file("out", 7 << 20).task(&[("read", "in"), ("write", "out")]);
    let mut profile = setup.profile();
    let without = run(&setup, &profile, &setup.configuration(), 1);
    profile.host.crowding =
        Some(Crowding { at_once: 2, names: 0.5, write: 0.5, read: 0.5, copy: 0.5 });
    let with = run(&setup, &profile, &setup.configuration(), 1);
    assert!((with.makespan_seconds - without.makespan_seconds).abs() < 1e-7);
}

#[test]
fn writes_slow_down_to_the_device_when_memory_is_full() {
    let setup = Setup { collocated: true, write_seconds: 1e-3, ..Setup::default() };
    let setup = setup.file("out", 100 << 20).task(&[("write", "out")]);
    let mut profile = setup.profile();
    let limit = 20_u64 << 20;
    profile.tiers[0].write_back =
        Some(WriteBack { bytes: limit, bytes_per_second: 100.0 * f64::from(1 << 20) });
    let found = run(&setup, &profile, &setup.configuration(), 1);
    // 100 MiB flow out at 100 MiB a second, less the 20 that are still in memory at the end.
    roughly(found.makespan_seconds, 0.8, 0.02);
    profile.tiers[0].write_back = Some(WriteBack { bytes: 1 << 40, bytes_per_second: 1.0 });
    let roomy = run(&setup, &profile, &setup.configuration(), 1);
    assert_seconds(roomy.makespan_seconds, 1e-3 + 0.1);
}

fn small_profile() -> Value {
    let access = json!({ "request_seconds": 1e-3, "bytes_per_second": 1e8 });
    json!({
        "format": "intarsia-profile", "version": 1, "name": "p", "hosts": 2,
        "provenance": { "source": "assumed", "note": "a test" },
        "host": { "slots": 1, "in_bytes_per_second": 1e8, "out_bytes_per_second": 1e8 },
        "network": { "latency_seconds": 1e-5, "loopback_bytes_per_second": 1e9 },
        "manager": { "open_seconds": { "samples": [0.1, 0.3] }, "allocate_seconds": 0, "commit_seconds": 0 },
        "tiers": [{ "class": "ssd", "capacity_bytes": 1_000_000_000, "read": access, "write": access }],
    })
}

#[test]
fn a_change_is_applied_where_it_says() {
    let parsed = |text: &str| Change::parse(text).unwrap().applied("p.json", &small_profile());
    assert_eq!(parsed("host.in_bytes_per_second=x10").unwrap().host.in_bytes_per_second, 1e9);
    assert_eq!(parsed("host.slots=x2").unwrap().host.slots, 2);
    assert_eq!(parsed("manager.open_seconds=0").unwrap().manager.open.mean(), 0.0);
    let halved = parsed("manager.open_seconds=x0.5").unwrap();
    assert!((halved.manager.open.mean() - 0.1).abs() < 1e-12);
    let tier = parsed("tiers.0.read.bytes_per_second=2e9").unwrap();
    assert_eq!(tier.tiers[0].read.bytes_per_second, 2e9);
    assert!(parsed("client={\"outstanding_chunks\":3}").unwrap().client.outstanding == Some(3));
    for (text, says) in [
        ("host.slot=2", "unknown field 'slot'"),
        ("hots.slots=2", "the profile has no 'hots'"),
        ("tiers.7.class=ssd", "the profile has no '7'"),
        ("name=x2", "'name' is no number"),
        ("host.cache_bytes=x2", "the profile has no 'cache_bytes'"),
        ("hosts=0", "0 must lie between 1"),
    ] {
        let problem = parsed(text).unwrap_err();
        assert!(problem.message.contains(says), "{text}: {problem:?}");
    }
    for text in ["host.slots", "=3", "host..slots=3", "host.slots="] {
        assert!(Change::parse(text).is_err(), "{text}");
    }
}

#[test]
fn the_gain_of_a_change_is_told_before_it_is_made() {
    let text = json!({ "format": "intarsia-workload", "version": 1,
        "files": [{ "name": "in", "size_bytes": 100_000_000 }],
        "tasks": [{ "name": "t", "reads": ["in"], "compute_seconds": 1.0 }] });
    let workload =
        intarsia_predict::workload::Workload::parse("w.json", &text.to_string()).unwrap();
    let value = small_profile();
    let profile = Profile::parse("p.json", &value.to_string()).unwrap();
    let mut grid = Grid::usual(&profile);
    (grid.hosts, grid.storage_hosts) = (vec![1], vec![None]);
    let options = Options {
        seed: 1,
        replications: 6,
        threads: 1,
        weights: Weights::TIME,
        shown: 15,
        within_seconds: None,
    };
    let before = advise(&workload, &profile, &grid, options).unwrap();
    let of = |text: &str| {
        let change = Change::parse(text).unwrap();
        let changed = change.applied("p.json", &value).unwrap();
        gain(&before, &change, (&workload, &changed), &grid, options).unwrap()
    };
    let faster = of("tiers.0.read.bytes_per_second=x2");
    roughly(faster.saved_seconds.mean, 0.5, 1e-3);
    assert!(!faster.is_undecided);
    // One link more does not matter where nothing crosses a link.
    let nothing = of("host.in_bytes_per_second=x10");
    assert!(nothing.is_undecided && nothing.saved_seconds.mean.abs() < 1e-9);
}
