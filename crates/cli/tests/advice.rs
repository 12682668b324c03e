//! `up --advice`: what is advised is done, what cannot be is said, and what does not fit is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use common::{Place, has_fuse};
use serde_json::Value;

const WORKLOAD: &str = r#"{"format": "intarsia-workload", "version": 1, "name": "two",
    "files": [{"name": "a", "size_bytes": 5000000}, {"name": "b", "size_bytes": 1000}],
    "tasks": [{"name": "make", "writes": ["a"]}, {"name": "use", "reads": ["a"], "writes": ["b"]}]}"#;
const PROFILE: &str = r#"{"format": "intarsia-profile", "version": 1, "name": "lab", "hosts": 4,
    "provenance": {"source": "assumed", "note": "a test"},
    "host": {"slots": 1, "in_bytes_per_second": 1e8, "out_bytes_per_second": 1e8},
    "network": {"latency_seconds": 1e-4, "loopback_bytes_per_second": 4e9},
    "manager": {"open_seconds": 1e-4, "allocate_seconds": 1e-4, "commit_seconds": 1e-4},
    "tiers": [{"class": "ssd", "capacity_bytes": 1000000000,
               "read": {"request_seconds": 1e-4, "bytes_per_second": 1e9},
               "write": {"request_seconds": 1e-4, "bytes_per_second": 1e9}}]}"#;

/// Asks for an advice and leaves it in `advice.json`.
fn advise(place: &Place, hosts: &str) -> Value {
    std::fs::write(place.path("w.json"), WORKLOAD).unwrap();
    std::fs::write(place.path("p.json"), PROFILE).unwrap();
    let words = ["advise", "w.json", "--profile", "p.json", "--runs", "2", "--hosts", hosts];
    let advice = place.run(&[words.as_slice(), &["--json"]].concat()).code(0);
    std::fs::write(place.path("advice.json"), &advice.out).unwrap();
    advice.json()
}

#[test]
fn an_advice_tells_what_it_rests_on_and_that_nothing_was_measured() {
    let place = Place::new();
    let advice = advise(&place, "1");
    let basis = &advice["basis"];
    assert_eq!(basis["workload"]["path"], place.text("w.json"));
    assert_eq!(basis["profile"]["blake3"].as_str().unwrap().len(), 64);
    assert!(advice["outside"][0].as_str().unwrap().contains("no run was ever held"));
    let words = ["advise", "w.json", "--profile", "p.json", "--runs", "2", "--hosts", "1"];
    place.run(&words).code(0).prints("Outside of what was measured");
}

#[test]
fn a_store_comes_up_as_it_is_advised() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    advise(&place, "1");
    let up = place.up(&["--advice", "advice.json"]).code(0);
    let said = ["Following the advice of advice.json (for 'two', 2 tasks", "applied      1 host"];
    let up = said.iter().fold(up, |up, said| up.says(said));
    up.says("not applied  the scheduler").says("The store is up at");
    place.run(&["down", "--purge"]).code(0);
}

#[test]
fn hints_that_are_advised_are_rules_of_the_store() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let mut advice = advise(&place, "1");
    let best = usize::try_from(advice["best"].as_u64().unwrap()).unwrap();
    let patterns =
        serde_json::json!({"once": {"cache": "none"}, "reduce": {"place": "collocate:{reader}"}});
    advice["points"][best]["configuration"]["patterns"] = patterns;
    advice["rules"] =
        serde_json::json!([{"rule": "*.raw cache=none", "pattern": "once", "files": 3}]);
    std::fs::write(place.path("advice.json"), advice.to_string()).unwrap();
    place
        .up(&["--advice", "advice.json"])
        .code(0)
        .says("applied      hints for 3 once files (--rule '*.raw cache=none')")
        .says("not applied  place=collocate:{reader} for reduce files");
    place.run(&["hint", "rule", "list"]).code(0).prints("*.raw cache=none");
    place.run(&["down", "--purge"]).code(0);
}

#[test]
fn an_advice_for_more_hosts_or_of_another_kind_is_refused_and_nothing_comes_up() {
    let place = Place::new();
    advise(&place, "3");
    place.up(&["--advice", "advice.json"]).code(2).says("is for 3 hosts, and 1 is given");
    place.up(&["--advice", "p.json"]).code(2).says("p.json: is no advice");
    place.up(&["--advice", "none.json"]).code(1).says("none.json");
    assert!(!place.path("store").exists());
}
