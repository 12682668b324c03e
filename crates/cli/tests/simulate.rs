//! The simulators from the command line: reports, presets, refusals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use std::io::Write;
use std::process::Stdio;

use common::Place;
use serde_json::Value;

const SMALL: &str = "[machine]\nnodes = 100\nreboot = '2 min'\n\
    [failures]\nlifetime = { model = 'exponential', mean = '30 days' }\n\
    [[level]]\nname = 'pfs'\nkind = 'lower'\nwrite = '60 s'\n\
    [workload]\nwalltime = '1 day'\n[run]\nhorizon = '60 days'\nreplications = 3\n";

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&place.run(arguments).code(0).out).unwrap()
}

#[test]
fn checkpoint_reports_estimates_with_intervals() {
    let place = Place::new();
    std::fs::write(place.path("small.toml"), SMALL).unwrap();
    let checkpoint = |more: &[&str]| {
        let mut arguments = vec!["simulate", "checkpoint", "small.toml"];
        arguments.extend(more);
        json(&place, &arguments)
    };
    let report = checkpoint(&["--json"]);
    assert_eq!(report["kind"], "checkpoint");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&report["seed"], &report["replications"]), (&1.into(), &3.into()));
    assert_eq!(report["scenario"]["machine"]["nodes"], 100);
    let efficiency = &report["estimates"]["efficiency"];
    assert!((0.5..1.0).contains(&efficiency["mean"].as_f64().unwrap()), "{efficiency}");
    assert!(efficiency["half_width"].as_f64().unwrap() > 0.0);
    assert_eq!((&efficiency["n"], &efficiency["unit"]), (&3.into(), &"share".into()));
    assert!(report["run"]["events"].as_u64().unwrap() > 100);
    // All but `run` is the same again, on any number of threads.
    let mut again = checkpoint(&["--json", "--threads", "1"]);
    again["run"] = report["run"].clone();
    assert_eq!(report, again);
    let other = checkpoint(&["--json", "--seed", "2", "--replications", "1"]);
    assert_ne!(report["estimates"], other["estimates"]);
    assert!(other["estimates"]["efficiency"]["half_width"].is_null());
}

#[test]
fn checkpoint_prints_a_table_csv_and_the_effective_scenario() {
    let place = Place::new();
    std::fs::write(place.path("small.toml"), SMALL).unwrap();
    let run = |more: &[&str]| {
        let mut arguments = vec!["simulate", "checkpoint", "small.toml"];
        arguments.extend(more);
        place.run(&arguments).code(0)
    };
    run(&[]).prints("checkpoint_interval").prints("3 replications").prints("efficiency");
    let csv = run(&["--csv"]).out;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "name,mean,half_width,n,unit");
    assert!(lines[1].starts_with("efficiency,0."), "{csv}");
    assert!(lines.iter().all(|line| line.split(',').count() == 5), "{csv}");
    let effective = run(&["--dry-run", "--set", "machine.nodes=50"]).out;
    assert!(effective.contains("nodes = 50"), "{effective}");
    std::fs::write(place.path("effective.toml"), &effective).unwrap();
    let again = place.run(&["simulate", "checkpoint", "effective.toml", "--dry-run"]).code(0).out;
    assert_eq!(effective, again);
}

#[test]
fn a_scenario_comes_from_standard_input_too() {
    let place = Place::new();
    let mut child = place
        .command(&["simulate", "checkpoint", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(SMALL.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kind"], "checkpoint");
}

#[test]
fn a_trace_is_found_beside_its_scenario_and_jobs_are_written_in_the_same_format() {
    let place = Place::new();
    std::fs::create_dir(place.path("traces")).unwrap();
    let trace = "; MaxProcs: 50\n1 0 -1 600 25 -1 -1 25 -1 -1 1 1 1 -1 1 -1 -1 -1\n\
        2 60 -1 900 50 -1 -1 50 -1 -1 1 1 1 -1 1 -1 -1 -1\n";
    std::fs::write(place.path("traces/two.swf"), trace).unwrap();
    let text = SMALL.replace("walltime = '1 day'", "trace = 'two.swf'\nrepeat = false");
    std::fs::write(place.path("traces/two.toml"), text.replace("30 days", "9999 years")).unwrap();
    let report =
        json(&place, &["simulate", "checkpoint", "traces/two.toml", "--json", "--jobs", "out.swf"]);
    assert_eq!(report["estimates"]["jobs_finished"]["mean"], 2.0);
    let jobs = std::fs::read_to_string(place.path("out.swf")).unwrap();
    let fields: Vec<Vec<&str>> =
        jobs.lines().filter(|l| !l.starts_with(';')).map(|l| l.split(' ').collect()).collect();
    // The first job runs on half of the machine; the second waits for all of it, and for its reboot.
    assert_eq!(fields[0][..5], ["1", "0", "0", "600", "50"]);
    assert_eq!(fields[1][..5], ["2", "60", "660", "900", "100"]);
}

#[test]
fn presets_are_listed_and_printed() {
    let place = Place::new();
    place.run(&["simulate", "presets"]).code(0).prints("rxsim-pfs");
    let list = json(&place, &["simulate", "presets", "--json"]);
    assert!(list.as_array().unwrap().iter().any(|p| p["name"] == "rxsim-dfs"));
    let text = place.run(&["simulate", "presets", "rxsim-pfs"]).code(0).out;
    std::fs::write(place.path("my.toml"), &text).unwrap();
    place.run(&["simulate", "checkpoint", "my.toml", "--dry-run"]).code(0).prints("1000 years");
    place.run(&["simulate", "presets", "rxsim-psf"]).code(2).says("did you mean 'rxsim-pfs'?");
}

#[test]
fn refusals_name_the_place_and_the_fix() {
    let place = Place::new();
    place.run(&["simulate", "checkpoint"]).code(2).says("neither a scenario file nor a preset");
    place.run(&["simulate", "checkpoint", "none.toml"]).code(2).says("scenario none.toml");
    let pfs = ["simulate", "checkpoint", "--preset", "rxsim-pfs"];
    let set = |assignment: &str| place.run(&[&pfs[..], &["--set", assignment]].concat()).code(2);
    set("machine.nods=3").says("--set machine.nods: machine.nods: unknown").says("'nodes'?");
    set("machine.reboot=3").says("3 has no unit").says("30 min");
    std::fs::write(place.path("bad.toml"), "[machine]\nnodes = 1\nreboot = '5 mni'\n").unwrap();
    let bad = place.run(&["simulate", "checkpoint", "bad.toml"]).code(2);
    bad.says("bad.toml:3:10: machine.reboot: 'mni' is not a unit").says("did you mean 'min'?");
}

#[test]
fn help_teaches_by_example() {
    let place = Place::new();
    for verb in [&["simulate"][..], &["simulate", "checkpoint"], &["simulate", "presets"]] {
        let help = [verb, &["--help"]].concat();
        place.run(&help).code(0).prints("Examples:").prints("intarsia simulate");
    }
}

#[test]
fn the_scenario_in_the_help_is_one() {
    let place = Place::new();
    let help = place.run(&["simulate", "checkpoint", "--help"]).code(0).out;
    let (_, after) = help.split_once("A scenario, in which").unwrap();
    let text: Vec<&str> = after.lines().skip(1).take_while(|line| line.starts_with("  ")).collect();
    std::fs::write(place.path("help.toml"), text.join("\n")).unwrap();
    let answer = place.run(&["simulate", "checkpoint", "help.toml", "--dry-run"]).code(0);
    answer.prints("nodes = 9408").prints("lustre");
}
