//! Media: what is being read is read once, and what a device lets pass at once after a pause.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{Setup, assert_seconds};
use intarsia_predict::model::predict;
use intarsia_predict::profile::{Burst, Profile};
use intarsia_types::TierClass;
use serde_json::json;

const RATE: f64 = 100e6;

/// One host, whose disk reads at a rate, and as many tasks as slots that read or write files at once.
fn disk(slots: u32, setup: Setup) -> (Setup, Profile) {
    let setup = Setup { collocated: true, cache_bytes: 1 << 40, ..setup };
    let mut profile = setup.profile();
    profile.host.slots = slots;
    profile.tiers[0].class = TierClass::Disk;
    profile.tiers[0].read.bytes_per_second = RATE;
    (setup, profile)
}

fn seconds((setup, profile): &(Setup, Profile)) -> f64 {
    predict(&setup.workload(), profile, &setup.configuration(), 1).unwrap().makespan_seconds
}

#[test]
fn what_is_being_read_is_not_read_again_for_others() {
    let size = 50 << 20;
    let one = Setup::default().file("in", size).task(&[("read", "in")]);
    let four = (1..4).fold(one.clone(), |setup, _| setup.task(&[("read", "in")]));
    let alone = seconds(&disk(4, one));
    assert_seconds(alone, size as f64 / RATE);
    let together = seconds(&disk(4, four));
    // The others copy the last chunk from memory.
    assert!(together < 1.1 * alone, "{together} s, one alone {alone} s");
}

#[test]
fn a_device_lets_pass_at_once_what_it_may_and_again_after_a_pause() {
    let read = |name: &str| json!([{ "read": name }]);
    let task = |pause: f64| {
        let mut operations = read("a").as_array().unwrap().clone();
        operations.push(json!({ "compute_seconds": pause }));
        operations.extend(read("b").as_array().unwrap().clone());
        json!({ "name": "t", "operations": operations })
    };
    let run = |pause: f64, bytes: u64| {
        let setup =
            Setup::default().file("a", 30_000_000).file("b", 30_000_000).raw_task(task(pause));
        let (setup, mut profile) = disk(1, setup);
        profile.tiers[0].read.burst =
            Some(Burst { bytes, bytes_per_second: 10.0 * RATE }).filter(|_| bytes > 0);
        seconds(&(setup, profile)) - pause
    };
    let usual = 60e6 / RATE;
    assert_seconds(run(1.0, 0), usual);
    // Of 10 MB nine tenths are saved, each time; after 50 ms half as much has come back.
    let saved = 10e6 / RATE * 0.9;
    assert_seconds(run(1.0, 10_000_000), usual - 2.0 * saved);
    assert_seconds(run(0.05, 10_000_000), usual - 1.5 * saved);
    assert_seconds(run(0.0, 10_000_000), usual - saved);
}

#[test]
fn a_burst_that_is_not_whole_is_refused() {
    let text = serde_json::to_string(&json!({ "bytes": 1 })).unwrap();
    let profile = r#"{"format":"intarsia-profile","version":1,"name":"x","hosts":1,
        "provenance":{"source":"assumed","note":"a test"},
        "host":{"slots":1,"in_bytes_per_second":1,"out_bytes_per_second":1},
        "network":{"latency_seconds":0,"loopback_bytes_per_second":1},
        "manager":{"open_seconds":0,"allocate_seconds":0,"commit_seconds":0},
        "tiers":[{"class":"disk","capacity_bytes":1,
            "write":{"request_seconds":0,"bytes_per_second":1},
            "read":{"request_seconds":0,"bytes_per_second":1,"burst":BURST}}]}"#;
    let problem = Profile::parse("p.json", &profile.replace("BURST", &text)).unwrap_err();
    assert!(problem.to_string().contains("bytes_per_second"), "{problem}");
    let whole = r#"{ "bytes": 1, "bytes_per_second": 2 }"#;
    assert!(Profile::parse("p.json", &profile.replace("BURST", whole)).is_ok());
}
