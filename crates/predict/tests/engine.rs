//! What a workflow engine takes for each task, in cases that can be computed by hand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{Setup, assert_seconds};
use intarsia_predict::model::{Prediction, predict};
use intarsia_predict::profile::{Engine, Profile, Provenance, Seconds, Source};
use proptest::prelude::*;
use serde_json::json;

const TASK: f64 = 3e-3;
const START: f64 = 8e-3;

fn with_engine(profile: Profile, task_seconds: f64, start_seconds: f64) -> Profile {
    let engine = Engine {
        provenance: Provenance { source: Source::Assumed, note: "a test".to_owned() },
        task_seconds,
        start_seconds,
        task_processor_seconds: None,
        start_alone_seconds: None,
        sleeps: false,
    };
    Profile { engine: Some(engine), ..profile }
}

/// So many tasks that compute alone, on hosts of one slot; `chained`: each waits for the one before.
fn computing(hosts: u32, tasks: u32, seconds: f64, chained: bool) -> Setup {
    let setup = Setup { collocated: true, app: hosts, ..Setup::default() };
    (0..tasks).fold(setup, |setup, number| {
        let after = match chained {
            true => number.checked_sub(1).map(|before| format!("t{before}")),
            false => None,
        };
        setup.raw_task(json!({
            "name": format!("t{number}"), "compute_seconds": seconds,
            "after": after.into_iter().collect::<Vec<_>>(),
        }))
    })
}

fn foretold(setup: &Setup, profile: &Profile) -> Prediction {
    predict(&setup.workload(), profile, &setup.configuration(), 1).unwrap()
}

fn makespan(setup: &Setup, task_seconds: f64, start_seconds: f64) -> f64 {
    let profile = with_engine(setup.profile(), task_seconds, start_seconds);
    foretold(setup, &profile).makespan_seconds
}

#[test]
fn tasks_in_turn_take_the_engine_s_time_and_theirs_each() {
    let each = TASK + START + 0.5;
    for setup in
        [computing(1, 20, 0.5, false), computing(1, 20, 0.5, true), computing(4, 20, 0.5, true)]
    {
        assert_seconds(makespan(&setup, TASK, START), 20.0 * each);
    }
}

#[test]
fn tasks_side_by_side_wait_for_one_engine_and_start_together() {
    let setup = computing(50, 50, 0.5, false);
    assert_seconds(makespan(&setup, TASK, START), 50.0 * TASK + START + 0.5);
    assert_seconds(makespan(&setup, 0.0, START), START + 0.5);
}

#[test]
fn more_tasks_than_an_engine_hands_over_meanwhile_are_bounded_by_it() {
    // While it hands 10 tasks over the first of them has ended, so slots are never what is short.
    let setup = computing(10, 200, 7.0 * TASK - START, false);
    assert_seconds(makespan(&setup, TASK, START), 200.0 * TASK + 7.0 * TASK);
}

#[test]
fn what_the_engine_did_is_told() {
    let setup = computing(5, 5, 1.0, false);
    let found = foretold(&setup, &with_engine(setup.profile(), TASK, START));
    let engine = found.engine.unwrap();
    assert_eq!(engine.requests, 5);
    assert_seconds(engine.busy_seconds, 5.0 * TASK);
    assert_seconds(engine.waited_seconds, (1.0 + 2.0 + 3.0 + 4.0) * TASK);
    assert!(found.usage.iter().any(|usage| usage.resource == "engine"));
}

#[test]
fn what_is_said_of_a_task_comes_on_top() {
    let setup = Setup { collocated: true, ..Setup::default() }
        .raw_task(json!({"name": "a", "overhead_seconds": 0.2, "compute_seconds": 1.0}));
    assert_seconds(makespan(&setup, TASK, START), TASK + START + 1.2);
}

proptest! {
    #[test]
    fn an_engine_that_takes_no_time_is_none(
        hosts in 1_u32..6,
        sizes in prop::collection::vec((0_u64..4 << 20, 0.0..2.0), 1..20),
    ) {
        let setup = Setup { collocated: true, app: hosts, ..Setup::default() };
        let setup = sizes.iter().enumerate().fold(setup, |setup, (number, (bytes, seconds))| {
            let out = format!("f{number}");
            setup.file(&out, *bytes).raw_task(json!({
                "name": format!("t{number}"), "compute_seconds": seconds, "writes": [out],
            }))
        });
        let without = foretold(&setup, &setup.profile());
        prop_assert!(without.engine.is_none());
        prop_assert!(without.usage.iter().all(|usage| usage.resource != "engine"));
        let free = foretold(&setup, &with_engine(setup.profile(), 0.0, 0.0));
        prop_assert_eq!(free.makespan_seconds, without.makespan_seconds);
        prop_assert!(makespan(&setup, TASK, START) > without.makespan_seconds);
    }
}

/// The same on hosts that all run on the processors of one machine.
fn on_shared(setup: &Setup, processors: u32, sleeps: bool) -> f64 {
    let mut profile = with_engine(setup.profile(), TASK, START);
    profile.shared_processors = Some(processors);
    profile.engine.as_mut().unwrap().sleeps = sleeps;
    foretold(setup, &profile).makespan_seconds
}

#[test]
fn hosts_of_one_machine_start_tasks_on_its_processors() {
    // The engine hands over one after the other, which takes one of two processors; what starts has the rest.
    let setup = computing(4, 4, 0.5, false);
    let work = 4.0 * (TASK + START);
    let made = on_shared(&setup, 2, true);
    assert!(made > 0.5 + work / 2.0 && made < 0.5 + work, "{made}");
    // With a processor for each host and the engine it is as if hosts had their own.
    assert_seconds(on_shared(&setup, 5, true), makespan(&setup, TASK, START));
    // On one processor nothing is side by side but sleep.
    assert_seconds(on_shared(&setup, 1, true), 0.5 + work);
}

#[test]
fn what_computes_on_hosts_of_one_machine_wants_its_processors_too() {
    let setup = computing(4, 4, 0.5, false);
    assert_seconds(on_shared(&setup, 1, false), 4.0 * (TASK + START + 0.5));
    let made = on_shared(&setup, 2, false);
    let between = 2.0 * (TASK + START + 0.5)..4.0 * TASK + 2.0 * (START + 0.5);
    assert!(between.contains(&made), "{made}");
}

#[test]
fn what_was_found_without_others_counts_where_processors_are_shared() {
    let setup = computing(4, 1, 0.5, false);
    let mut profile = with_engine(setup.profile(), 10.0 * TASK, 10.0 * START);
    let engine = profile.engine.as_mut().unwrap();
    (engine.task_processor_seconds, engine.start_alone_seconds) = (Some(TASK), Some(START));
    assert_seconds(foretold(&setup, &profile).makespan_seconds, 0.5 + 10.0 * (TASK + START));
    profile.shared_processors = Some(2);
    assert_seconds(foretold(&setup, &profile).makespan_seconds, 0.5 + TASK + START);
}

/// So many tasks side by side that each make a file and nothing else.
fn making(hosts: u32) -> Setup {
    let setup = Setup { collocated: true, app: hosts, ..Setup::default() };
    (0..2).fold(setup, |mut setup, number| {
        let name = format!("made/{number}");
        setup.files.push(json!({ "name": name, "size_bytes": 1000 }));
        setup.raw_task(
            json!({ "name": format!("t{number}"), "compute_seconds": 0.5, "writes": [name] }),
        )
    })
}

#[test]
fn making_a_file_takes_longer_where_another_host_uses_the_directory() {
    let longer = |hosts: u32| {
        let (setup, seconds) = (making(hosts), |profile: &Profile, setup: &Setup| {
            foretold(setup, profile).makespan_seconds
        });
        let mut profile = setup.profile();
        let usual = seconds(&profile, &setup);
        let Seconds::Constant(allocate) = profile.manager.allocate else { panic!("a number") };
        profile.manager.allocate_shared = Some(Seconds::Constant(allocate + 0.25));
        seconds(&profile, &setup) - usual
    };
    assert_seconds(longer(1), 0.0);
    assert!(longer(2) >= 0.25, "{}", longer(2));
}

#[test]
fn nobody_waits_for_checksums_but_for_their_processors() {
    let setup = making(2);
    let mut profile = setup.profile();
    profile.tiers[0].read.bytes_per_second = 1e3;
    profile.shared_processors = Some(8);
    let without = foretold(&setup, &profile).makespan_seconds;
    profile.client.sums_written = true;
    assert_seconds(foretold(&setup, &profile).makespan_seconds, without);
    // A second each: what comes after it waits on one processor.
    let chain = |sums: bool| {
        let mut profile = profile.clone();
        (profile.shared_processors, profile.client.sums_written) = (Some(1), sums);
        foretold(&making(1), &profile).makespan_seconds
    };
    assert!(chain(true) > chain(false) + 0.4, "{} {}", chain(true), chain(false));
}

#[test]
fn a_task_that_reads_only_what_stands_beside_inodes_goes_before_nobody() {
    let setup = Setup { collocated: true, ..Setup::default() }
        .file("small", 100)
        .raw_task(json!({ "name": "alone", "compute_seconds": 0.5 }))
        .raw_task(json!({ "name": "reader", "reads": ["small"], "compute_seconds": 0.5 }));
    let begins = |inline_bytes: u64| {
        let mut profile = setup.profile();
        profile.client.inline_bytes = inline_bytes;
        let found = foretold(&setup, &profile);
        found.tasks.iter().map(|task| task.start_seconds).collect::<Vec<_>>()
    };
    let (stored, inline) = (begins(99), begins(100));
    assert!(stored[1] < stored[0], "what reads something of the store goes first: {stored:?}");
    assert!(inline[0] < inline[1], "{inline:?}");
}
