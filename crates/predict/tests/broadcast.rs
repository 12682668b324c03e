//! Readers of a file with the hint `pattern=broadcast` take it from each other.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::Setup;
use intarsia_predict::configuration::Configuration;
use intarsia_predict::model::{Prediction, predict};
use intarsia_predict::profile::Failures;
use proptest::prelude::*;
use serde_json::{Value, json};

const RATE: f64 = 12.5e6;

/// One host has a file, and as many others read it, each all or the first bytes.
fn readers(count: u32, size_bytes: u64, part: impl Fn(u32) -> u64, hints: &Value) -> Setup {
    let mut setup = Setup {
        app: count + 1,
        collocated: true,
        sharing: "fair",
        bytes_per_second: RATE,
        cache_bytes: 1 << 40,
        latency_seconds: 50e-6,
        files: vec![json!({ "name": "table", "size_bytes": size_bytes, "hints": hints })],
        ..Setup::default()
    };
    for number in 0..=count {
        // The home has a slot too: its task reads what lies there.
        let read = json!({ "read": "table", "size_bytes": part(number).min(size_bytes) });
        setup = setup.raw_task(json!({ "name": format!("read-{number}"), "operations": [read] }));
    }
    setup
}

fn hinted() -> Value {
    json!({ "pattern": "broadcast" })
}

fn whole(_: u32) -> u64 {
    u64::MAX
}

#[test]
fn many_readers_take_about_as_long_as_one_and_without_the_hint_as_many_times() {
    let size = 20_000_000;
    let seconds = |count, hints: &Value| {
        let found = readers(count, size, whole, hints).predict();
        assert_eq!(found.bytes.remote, u64::from(count) * size, "each byte comes to each once");
        found.makespan_seconds
    };
    let one = seconds(1, &hinted());
    common::roughly(one, size as f64 / RATE, 0.03);
    for count in [2, 4, 8, 19] {
        let all = seconds(count, &hinted());
        assert!(all < 1.25 * one, "{count} readers: {all} s, one {one} s");
        common::roughly(seconds(count, &json!({})), f64::from(count) * size as f64 / RATE, 0.03);
    }
}

#[test]
fn a_short_file_comes_from_its_home_and_so_does_any_where_hints_are_not_followed() {
    for (size, follows_hints) in [(500 << 10, true), (20_000_000, false)] {
        let with = readers(4, size, whole, &hinted());
        let without = readers(4, size, whole, &json!({}));
        let seconds = |setup: &Setup| {
            let configuration = Configuration { follows_hints, ..setup.configuration() };
            let found = predict(&setup.workload(), &setup.profile(), &configuration, 1);
            found.unwrap().makespan_seconds
        };
        assert_eq!(seconds(&with).to_bits(), seconds(&without).to_bits());
    }
}

#[test]
fn who_reads_a_part_does_not_bring_the_whole() {
    let size = 32 << 20;
    let found = readers(4, size, |_| size / 8, &hinted()).predict();
    assert!(found.bytes.remote <= 4 * size / 8 + 4 * (64 << 10), "{:?}", found.bytes);
    assert!(found.makespan_seconds < 1.5 * (size / 8) as f64 / RATE);
}

#[test]
fn what_a_host_has_taken_it_reads_from_memory() {
    let mut setup = readers(3, 8 << 20, whole, &hinted());
    for task in &mut setup.tasks {
        let again = task["operations"][0].clone();
        task["operations"].as_array_mut().unwrap().push(again);
    }
    let found = setup.predict();
    assert_eq!(found.bytes.remote, 3 * (8 << 20));
    assert_eq!(found.bytes.from_memory + found.bytes.local, 5 * (8 << 20));
}

/// All that was asked is read, whatever hosts fail meanwhile.
fn ends(setup: &Setup, seed: u64, mean_seconds: Option<f64>) -> Prediction {
    let mut profile = setup.profile();
    profile.failures = mean_seconds.map(|mean_seconds| Failures {
        mean_seconds,
        shape: 1.0,
        repair_seconds: 0.3,
        loses_disks: seed.is_multiple_of(2),
    });
    predict(&setup.workload(), &profile, &setup.configuration(), seed).unwrap()
}

proptest! {
    #[test]
    fn drawn_readers_of_a_broadcast_file_end_and_again_in_the_same_way(
        count in 1u32..7,
        size in 1u64..24 << 20,
        parts in prop::collection::vec(1u64..24 << 20, 8),
        made in any::<bool>(),
        mean_seconds in prop::option::of(2.0..20.0),
        seed in any::<u64>(),
    ) {
        let part = |number: u32| parts[number as usize];
        let mut setup = readers(count, size, part, &hinted());
        if made {
            setup = setup.raw_task(json!({ "name": "make", "operations": [{ "write": "table" }] }));
        }
        let found = ends(&setup, seed, mean_seconds);
        prop_assert!(found.makespan_seconds.is_finite() && found.makespan_seconds > 0.0);
        let again = ends(&setup, seed, mean_seconds);
        prop_assert_eq!(found.makespan_seconds.to_bits(), again.makespan_seconds.to_bits());
        let alone = size as f64 / RATE;
        let most = f64::from(count + 1) * 2.0 * (alone + 0.1);
        prop_assert!(mean_seconds.is_some() || found.makespan_seconds < most);
    }
}
