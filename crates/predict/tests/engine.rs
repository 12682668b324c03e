//! What a workflow engine takes for each task, in cases that can be computed by hand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{Setup, assert_seconds};
use intarsia_predict::model::{Prediction, predict};
use intarsia_predict::profile::{Engine, Profile, Provenance, Source};
use proptest::prelude::*;
use serde_json::json;

const TASK: f64 = 3e-3;
const START: f64 = 8e-3;

fn with_engine(profile: Profile, task_seconds: f64, start_seconds: f64) -> Profile {
    let provenance = Provenance { source: Source::Assumed, note: "a test".to_owned() };
    Profile { engine: Some(Engine { provenance, task_seconds, start_seconds }), ..profile }
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
