//! Hosts that fail and lose what only they had: the tasks that made it run again.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{Setup, assert_seconds, roughly};
use intarsia_predict::configuration::{Configuration, Placement, Scheduler};
use intarsia_predict::model::{Mishaps, Prediction, predict};
use intarsia_predict::profile::{Failures, Profile};
use proptest::prelude::*;
use serde_json::json;

/// A chain: each task reads what the one before wrote, computes, and writes.
fn chain(seconds: &[f64], app: u32) -> Setup {
    let mut setup = Setup { app, collocated: true, ..Setup::default() }.file("f-0", 1 << 20);
    for (n, seconds) in seconds.iter().enumerate() {
        setup = setup.file(&format!("f-{}", n + 1), 1 << 20).raw_task(json!({
            "name": format!("t-{n}"), "stage": format!("s-{n}"), "reads": [format!("f-{n}")],
            "compute_seconds": seconds, "writes": [format!("f-{}", n + 1)],
        }));
    }
    setup
}

fn failing(setup: &Setup, mean_seconds: f64, repair_seconds: f64, loses_disks: bool) -> Profile {
    let mut profile = setup.profile();
    profile.failures = Some(Failures { mean_seconds, shape: 1.0, repair_seconds, loses_disks });
    profile
}

fn run(setup: &Setup, profile: &Profile, configuration: &Configuration, seed: u64) -> Prediction {
    predict(&setup.workload(), profile, configuration, seed).unwrap()
}

fn mishaps(found: &Prediction) -> Mishaps {
    found.mishaps.unwrap()
}

/// A platform on which nothing takes time but computation.
fn free(setup: &Setup, profile: Profile) -> Profile {
    let zero = setup.profile().client.operation;
    let mut profile = profile;
    profile.manager.open = zero.clone();
    profile.manager.allocate = zero.clone();
    profile.manager.commit = zero;
    profile.network.control_bytes = 0;
    profile
}

/// On one host whose memory is all there is, a chain of n tasks that a failure finds at any point begins anew as a whole:
/// it takes as long as one task of the length of all, (e^(λT) − 1)(1/λ + r) in the mean (renewal theory). Were files kept,
/// each task would be thrown back by itself: n (e^(λT/n) − 1)(1/λ + r).
#[test]
fn a_chain_in_the_memory_of_one_host_is_one_long_task() {
    let (part, mean_seconds, repair) = (40.0, 200.0, 30.0);
    // There is room for each file once: what is lost must leave room for what is made again.
    let setup = Setup { capacity_bytes: 5 << 20, ..chain(&[part; 4], 1) };
    let runs = 1_500_u32;
    let mean = |profile: &Profile| {
        let of =
            |seed: u32| run(&setup, profile, &setup.configuration(), seed.into()).makespan_seconds;
        (0..runs).map(of).sum::<f64>() / f64::from(runs)
    };
    let theory = |seconds: f64| ((seconds / mean_seconds).exp() - 1.0) * (mean_seconds + repair);
    let mut profile = free(&setup, failing(&setup, mean_seconds, repair, false));
    roughly(mean(&profile), theory(4.0 * part), 0.06);
    profile.tiers[0].class = "ssd".parse().unwrap();
    roughly(mean(&profile), 4.0 * theory(part), 0.06);
    profile.failures.as_mut().unwrap().loses_disks = true;
    roughly(mean(&profile), theory(4.0 * part), 0.06);
}

/// One failure at F throws a chain back to its beginning: it ends at F + r + T. With files kept it goes on with the task
/// that was under way, at F + r + T − p ⌊F/p⌋. The failures of both runs are the same.
#[test]
fn what_one_failure_costs_follows_from_its_moment() {
    let (part, repair) = (40.0, 30.0);
    let setup = chain(&[part; 4], 1);
    let lost = free(&setup, failing(&setup, 300.0, repair, true));
    let mut kept = lost.clone();
    kept.tiers[0].class = "ssd".parse().unwrap();
    kept.failures.as_mut().unwrap().loses_disks = false;
    let mut seen = [0; 4];
    for seed in 0..300 {
        let without = run(&setup, &lost, &setup.configuration(), seed);
        let with = run(&setup, &kept, &setup.configuration(), seed);
        if mishaps(&without).host_failures != 1 || mishaps(&with).host_failures != 1 {
            continue;
        }
        let failed = without.makespan_seconds - repair - 4.0 * part;
        let ended = mishaps(&without).remade_tasks;
        assert!((part * ended as f64..part * (ended + 1) as f64).contains(&failed), "seed {seed}");
        assert_seconds(without.makespan_seconds - with.makespan_seconds, part * ended as f64);
        assert_eq!(mishaps(&without).lost_files, ended);
        assert_eq!(mishaps(&without).lost_inputs, 1);
        assert_eq!(mishaps(&with).lost_files + mishaps(&with).remade_tasks, 0);
        seen[usize::try_from(ended).unwrap()] += 1;
    }
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
}

/// A short task's result is lost while a long one runs: it is made again when that has ended.
#[test]
fn results_that_are_lost_are_made_again_at_the_end() {
    let mut setup = Setup { app: 2, collocated: true, ..Setup::default() };
    for (name, seconds) in [("short", 10.0), ("long", 1000.0)] {
        setup = setup.file(name, 1 << 20).raw_task(json!({
            "name": format!("t-{name}"), "compute_seconds": seconds, "writes": [name],
        }));
    }
    let profile = free(&setup, failing(&setup, 2_000.0, 5.0, true));
    let mut seen = 0;
    for seed in 0..100 {
        let found = run(&setup, &profile, &setup.configuration(), seed);
        let counts = mishaps(&found);
        if counts.lost_runs == 0 && counts.lost_files == 1 && counts.host_failures == 1 {
            roughly(found.makespan_seconds, 1010.0, 1e-4);
            assert_eq!(counts.remade_tasks, 1);
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

/// A file that a task has read is not missed, unless one that reads it runs again.
#[test]
fn what_nobody_reads_any_more_is_not_made_again() {
    // Both write in the first ten seconds; the sum goes elsewhere and computes long.
    let mut setup = Setup { app: 3, collocated: true, ..Setup::default() };
    for n in 0..2 {
        setup = setup.file(&format!("part-{n}"), 1 << 20).raw_task(json!({
            "name": format!("make-{n}"), "compute_seconds": 10, "writes": [format!("part-{n}")],
        }));
    }
    let setup = setup.file("sum", 1 << 20).raw_task(json!({
        "name": "sum", "reads": ["part-0", "part-1"], "compute_seconds": 500, "writes": ["sum"],
    }));
    let profile = free(&setup, failing(&setup, 2_000.0, 5.0, true));
    let (mut unmissed, mut remade) = (0, 0);
    for seed in 0..200 {
        let found = run(&setup, &profile, &setup.configuration(), seed);
        let counts = mishaps(&found);
        if counts.host_failures != 1 || counts.lost_files == 0 {
            continue;
        }
        if counts.lost_runs == 0 {
            roughly(found.makespan_seconds, 510.0, 1e-3);
            assert_eq!(counts.remade_tasks, 0);
            unmissed += 1;
        } else {
            // The host of the sum failed, which had one of the parts too: that is made again first.
            assert_eq!(counts.remade_tasks, counts.lost_files, "seed {seed}");
            remade += 1;
        }
    }
    assert!(unmissed > 5 && remade > 5, "{unmissed} {remade}");
}

#[test]
fn a_file_with_a_copy_elsewhere_is_not_lost() {
    let setup = chain(&[20.0; 5], 3);
    let profile = free(&setup, failing(&setup, 150.0, 10.0, true));
    let lost = |copies: u32| {
        let configuration = Configuration { copies, ..setup.configuration() };
        let runs = (0..200).map(|seed| run(&setup, &profile, &configuration, seed));
        let with_one = runs.filter(|run| mishaps(run).host_failures == 1);
        let counts: Vec<Mishaps> = with_one.map(|run| mishaps(&run)).collect();
        assert!(counts.len() > 30);
        counts
            .iter()
            .map(|counts| counts.lost_files + counts.remade_tasks + counts.lost_inputs)
            .sum::<u64>()
    };
    assert!(lost(1) > 20);
    assert_eq!(lost(2), 0);
}

/// A reader does not wait for the host that is down when another one has a copy.
#[test]
fn copies_are_read_where_a_host_is_up() {
    let setup = Setup { stores: 3, outstanding: Some(1), ..Setup::default() };
    let setup = setup.file("in", 400 << 20).task(&[("read", "in")]);
    let quiet = setup.predict().makespan_seconds;
    let profile = failing(&setup, 60.0, 1e4, false);
    let share_late = |copies: u32| {
        let configuration = Configuration { copies, ..setup.configuration() };
        let late = |seed: &u64| {
            let found = run(&setup, &profile, &configuration, *seed);
            found.makespan_seconds > quiet + 1e3
        };
        (0..400).filter(late).count()
    };
    // Later are those whose own host or metadata server failed, and without copies those of one store more.
    let (one, three) = (share_late(1), share_late(3));
    assert!(one > three + 10, "{one} {three}");
}

/// A new file, and its copies, go to hosts that are up, as long as there is one.
#[test]
fn new_files_do_not_wait_for_hosts_that_are_down() {
    let mut setup = Setup { app: 4, collocated: true, ..Setup::default() };
    for n in 0..30 {
        let name = format!("out-{n}");
        setup = setup.file(&name, 1 << 20).raw_task(json!({
            "name": format!("t-{n}"), "compute_seconds": 20.0, "writes": [name],
            "after": (0..n).rev().take(1).map(|before| format!("t-{before}")).collect::<Vec<_>>(),
        }));
    }
    let mut profile = free(&setup, failing(&setup, 6_000.0, 2e3, false));
    profile.tiers[0].class = "ssd".parse().unwrap();
    let late = |placement, copies| {
        let configuration =
            Configuration { placement, copies, stripe_width: 2, ..setup.configuration() };
        let runs = (0..200).map(|seed| run(&setup, &profile, &configuration, seed));
        let one = runs.filter(|run| mishaps(run).host_failures == 1);
        // The host that makes decisions may be the one that is down.
        let (late, all) = one.fold((0, 0), |(late, all), run| {
            (late + u32::from(run.makespan_seconds > 2e3), all + 1)
        });
        assert!(all > 30);
        f64::from(late) / f64::from(all)
    };
    for (placement, copies) in
        [(Placement::Local, 1), (Placement::Local, 2), (Placement::RoundRobin, 1)]
    {
        let share = late(placement, copies);
        assert!(share < 0.25, "{placement:?}, {copies} copies: {share}");
    }
}

/// Each copy takes the room of the file once.
#[test]
fn copies_fit_where_the_file_does() {
    let setup = Setup { app: 2, collocated: true, capacity_bytes: 1 << 20, ..Setup::default() };
    let setup = setup.file("out", 1 << 20).task(&[("write", "out")]);
    let configuration = Configuration { copies: 2, ..setup.configuration() };
    assert!(predict(&setup.workload(), &setup.profile(), &configuration, 1).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Whatever is lost, all tasks end, the result is there, and the same seed gives the same run.
    #[test]
    fn every_run_ends_whatever_is_lost(
        seed in any::<u64>(), mean_seconds in 15.0_f64..200.0, copies in 1_u32..4, placement in 0_usize..3,
        is_wow in any::<bool>(), has_second_runs in any::<bool>(), is_random in any::<bool>(),
    ) {
        let mut setup = Setup { app: 4, collocated: true, ..Setup::default() }.file("in", 5 << 20);
        for n in 0..3 {
            let (raw, out) = (format!("raw-{n}"), format!("out-{n}"));
            setup = setup.file(&raw, 3 << 20).file(&out, 2 << 20);
            setup = setup.raw_task(json!({ "name": format!("a-{n}"), "stage": "a", "reads": ["in"],
                "compute_seconds": 2.0, "writes": [raw] }));
            setup = setup.raw_task(json!({ "name": format!("b-{n}"), "stage": "b", "reads": [raw, "in"],
                "compute_seconds": 3.0, "writes": [out] }));
        }
        let setup = setup.file("all", 6 << 20).raw_task(json!({ "name": "c", "writes": ["all"],
            "reads": ["out-0", "out-1", "out-2", "raw-0"], "compute_seconds": 1.0 }));
        let mut profile = failing(&setup, mean_seconds, 3.0, is_random);
        profile.failures.as_mut().unwrap().shape = 0.8;
        let configuration = Configuration {
            copies,
            placement: [Placement::Local, Placement::RoundRobin, Placement::Collocate][placement],
            stripe_width: 3,
            scheduler: if is_wow { Scheduler::Wow } else { Scheduler::Location },
            second_run_percent: has_second_runs.then_some(150),
            ..setup.configuration()
        };
        let found = run(&setup, &profile, &configuration, seed);
        prop_assert!(found.tasks.iter().all(|task| task.end_seconds > task.start_seconds));
        prop_assert!(found.tasks.iter().all(|task| task.end_seconds <= found.makespan_seconds));
        let counts = mishaps(&found);
        prop_assert!(counts.remade_tasks == 0 || counts.lost_files > 0);
        let again = run(&setup, &profile, &configuration, seed);
        prop_assert_eq!(serde_json::to_string(&found).unwrap(), serde_json::to_string(&again).unwrap());
    }
}
