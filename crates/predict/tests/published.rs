//! What was published of the workflow patterns on twenty hosts with gigabit links, and what the model says of it.
//!
//! Only the direction of each finding can be reproduced: the service times of that store were not published.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::Setup;
use intarsia_predict::configuration::{Placement, Scheduler};
use serde_json::json;

const HOSTS: u32 = 19;

/// A store that deals every file over all of its hosts.
fn striped(setup: Setup) -> Setup {
    let mut setup = Setup { read_seconds: 1e-3, write_seconds: 1e-3, ..setup };
    setup.configuration.placement = Placement::RoundRobin;
    setup.configuration.stripe_width = HOSTS;
    setup
}

/// Clients and storage on all hosts, in processes of their own, as there.
fn hosts() -> Setup {
    striped(Setup { app: HOSTS, collocated: true, local_messages: true, ..Setup::default() })
}

fn workflow_aware(setup: &Setup) -> Setup {
    let mut setup = setup.clone();
    setup.configuration.placement = Placement::Collocate;
    setup.configuration.scheduler = Scheduler::Location;
    setup
}

/// Reproduced in part: striping has spread the load of a broadcast already, so copies bring little. Published is no gain at
/// all; here four copies save 8 %, because a reader finds four of nineteen chunks on its own host instead of one.
#[test]
fn copies_hardly_pay_for_a_broadcast() {
    let of = |copies: u32| {
        let mut setup = hosts().file("in", 100_000_000).file("shared", 100_000_000);
        setup.configuration.copies = copies;
        setup = setup.raw_task(json!({"name": "one", "reads": ["in"], "writes": ["shared"]}));
        for n in 0..HOSTS {
            let out = format!("out-{n}");
            setup = setup.file(&out, 1_000_000);
            setup = setup
                .raw_task(json!({"name": format!("r-{n}"), "reads": ["shared"], "writes": [out]}));
        }
        setup.predict().makespan_seconds
    };
    let (one, two, four) = (of(1), of(2), of(4));
    assert!(two > 0.95 * one && four > 0.9 * one, "{one} s, {two} s, {four} s");
}

/// Reproduced: a pipeline is faster where each file stays with its writer and tasks go to their files.
#[test]
fn a_pipeline_gains_from_placement_and_location() {
    let mut setup = hosts();
    for n in 0..HOSTS {
        let sizes = [100_000_000, 200_000_000, 200_000_000, 1_000_000];
        for (stage, size) in sizes.into_iter().enumerate() {
            setup = setup.file(&format!("f-{stage}-{n}"), size);
        }
        for stage in 0..3 {
            let (from, to) = (format!("f-{stage}-{n}"), format!("f-{}-{n}", stage + 1));
            setup = setup.raw_task(
                json!({"name": format!("t-{stage}-{n}"), "reads": [from], "writes": [to]}),
            );
        }
    }
    let (default, aware) = (setup.predict(), workflow_aware(&setup).predict());
    assert!(aware.bytes.local_share() > 0.99);
    assert!(2.0 * aware.makespan_seconds < default.makespan_seconds);
}

/// Reproduced: the task that reduces reads faster where its inputs lie together.
#[test]
fn a_reduction_gains_from_collocation() {
    let mut setup = hosts().file("out", 200_000_000);
    for n in 0..HOSTS {
        let (from, to) = (format!("in-{n}"), format!("mid-{n}"));
        setup = setup.file(&from, 10_000_000).file(&to, 10_000_000).raw_task(
            json!({"name": format!("map-{n}"), "stage": "map", "reads": [from], "writes": [to]}),
        );
    }
    let reads: Vec<String> = (0..HOSTS).map(|n| format!("mid-{n}")).collect();
    setup = setup.raw_task(json!({"name": "reduce", "reads": reads, "writes": ["out"]}));
    let (default, aware) = (setup.predict(), workflow_aware(&setup).predict());
    assert!(2.0 * aware.stages[1].read_seconds < default.stages[1].read_seconds);
    assert!(aware.makespan_seconds < default.makespan_seconds);
}

/// Reproduced in shape: with hosts split between tasks and storage, the best split is neither end.
#[test]
fn a_search_in_a_shared_database_has_an_interior_best_split() {
    let of = |storage: u32| {
        let app = HOSTS - storage;
        let mut setup = striped(Setup { app, stores: storage, ..Setup::default() });
        setup = setup.file("db", 200_000_000);
        for n in 0..57 {
            let out = format!("out-{n}");
            setup = setup.file(&out, 1_000_000).raw_task(json!({
                "name": format!("s-{n}"), "reads": ["db"], "compute_seconds": 2.0, "writes": [out],
            }));
        }
        setup.predict().makespan_seconds
    };
    let times: Vec<f64> = (1..HOSTS - 1).map(of).collect();
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(best < 0.6 * times[0] && best < 0.6 * times[times.len() - 1], "{times:?}");
}
