//! The scale simulator from the command line: several machines, reports, calibration, refusals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use common::Place;
use serde_json::Value;

const SMALL: &str = "preset = 'ior-bgp'\n[nodes]\ncount = [4, 16]\n[workload]\ntransfers = 2\n";

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.path("small.toml"), SMALL).unwrap();
    place
}

fn scale(place: &Place, more: &[&str]) -> String {
    let mut arguments = vec!["simulate", "scale", "small.toml"];
    arguments.extend(more);
    place.run(&arguments).code(0).out
}

#[test]
fn every_number_of_nodes_is_a_report_of_its_own() {
    let place = place();
    let reports: Value = serde_json::from_str(&scale(&place, &["--json"])).unwrap();
    let [four, sixteen] = &reports.as_array().unwrap()[..] else { panic!("{reports}") };
    for (report, nodes) in [(four, 4), (sixteen, 16)] {
        assert_eq!(report["kind"], "scale");
        assert_eq!(report["scenario"]["nodes"]["count"], nodes);
        assert_eq!(report["estimates"]["write.throughput"]["unit"], "B/s");
        assert!(report["estimates"]["write.throughput"]["half_width"].is_null());
        assert!(report["run"]["events"].as_u64().unwrap() > 0);
        assert!(report["run"]["peak_bytes"].as_u64().unwrap() > 1 << 20);
    }
    let once: Value = serde_json::from_str(&scale(&place, &["--json", "--nodes", "8"])).unwrap();
    assert_eq!(once[0]["scenario"]["nodes"]["count"], 8);
    let mut again: Value =
        serde_json::from_str(&scale(&place, &["--json", "--threads", "1"])).unwrap();
    for (new, old) in again.as_array_mut().unwrap().iter_mut().zip([four, sixteen]) {
        new["run"] = old["run"].clone();
    }
    assert_eq!(again, reports);
}

#[test]
fn tables_csv_and_the_effective_scenario() {
    let place = place();
    let table = scale(&place, &[]);
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.starts_with("nodes") && table.contains("write.throughput"), "{table}");
    let full = scale(&place, &["--nodes", "4", "--set", "system.copies_fetched=false"]);
    assert!(full.contains("write.latency_p99") && full.contains("Busiest links"), "{full}");
    let csv = scale(&place, &["--csv"]);
    assert!(csv.starts_with("nodes,name,mean,half_width,n,unit\n4,job.seconds,"), "{csv}");
    assert!(csv.lines().all(|line| line.split(',').count() == 6), "{csv}");
    // What --dry-run prints can be run, and is the same scenario.
    let effective = scale(&place, &["--dry-run"]);
    std::fs::write(place.path("effective.toml"), &effective).unwrap();
    let again = place.run(&["simulate", "scale", "effective.toml", "--csv"]).code(0).out;
    assert_eq!(again, csv);
}

#[test]
fn constants_are_fitted_to_measured_points() {
    let place = place();
    let points = "estimate = 'write.throughput'\nfit = ['system.device_write']\n\
        [[point]]\nnodes = 4\nrate = '400 MB/s'\nsource = 'lab'\n";
    std::fs::write(place.path("points.toml"), points).unwrap();
    let text = scale(&place, &["--calibrate", "points.toml"]);
    assert!(text.contains("--set system.device_write='10") && text.contains("lab"), "{text}");
    let json: Value =
        serde_json::from_str(&scale(&place, &["--calibrate", "points.toml", "--json"])).unwrap();
    assert!(json["mean_error"].as_f64().unwrap() < 1e-3, "{json}");
}

#[test]
fn what_is_wrong_is_named() {
    let place = place();
    let refused = |more: &[&str]| {
        let mut arguments = vec!["simulate", "scale", "small.toml"];
        arguments.extend(more);
        place.run(&arguments).code(2)
    };
    refused(&["--nodes", "0"]).says("nodes.count");
    refused(&["--set", "network.kind=toruss"]).says("did you mean 'torus'?");
    refused(&["--set", "system.chunk=1 MiB"]).says("system.chunk: unknown field");
    refused(&["--calibrate", "none.toml"]).says("none.toml");
    place.run(&["simulate", "scale", "--preset", "fusionsim"]).code(2).says("fusionsim-bgp");
    place.run(&["simulate", "scale", "--io500"]).code(0).prints("Aurora");
}
