//! `intarsia predict` and `intarsia advise`: answers for people and for programs, and refusals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use std::io::Write;
use std::process::Stdio;

use common::Place;
use serde_json::{Value, json};

/// Four pipelines of two tasks, and one that reads what all of them wrote.
fn workload() -> Value {
    let mut files = vec![json!({"name": "out", "size_bytes": 1_000_000})];
    let mut tasks = Vec::new();
    for n in 0..4 {
        for name in ["in", "mid", "end"] {
            files.push(json!({"name": format!("{name}-{n}"), "size_bytes": 20_000_000}));
        }
        for (stage, from, to) in [("first", "in", "mid"), ("second", "mid", "end")] {
            tasks.push(json!({
                "name": format!("{stage}-{n}"), "stage": stage, "reads": [format!("{from}-{n}")],
                "compute_seconds": 0.5, "writes": [format!("{to}-{n}")],
            }));
        }
    }
    let reads: Vec<String> = (0..4).map(|n| format!("end-{n}")).collect();
    tasks.push(json!({"name": "sum", "reads": reads, "compute_seconds": 0.5, "writes": ["out"]}));
    json!({"format": "intarsia-workload", "version": 1, "name": "pipelines", "files": files, "tasks": tasks})
}

fn profile() -> Value {
    let access = json!({"request_seconds": 1e-4, "bytes_per_second": 1e9});
    json!({
        "format": "intarsia-profile", "version": 1, "name": "lab", "hosts": 4,
        "provenance": {"source": "assumed", "note": "a test"},
        "host": {"slots": 1, "in_bytes_per_second": 125e6, "out_bytes_per_second": 125e6},
        "network": {"latency_seconds": 5e-5, "loopback_bytes_per_second": 4e9},
        "manager": {"open_seconds": 1e-4, "allocate_seconds": {"samples": [1e-4, 9e-4]}, "commit_seconds": 2e-4},
        "tiers": [{"class": "ssd", "capacity_bytes": 1_000_000_000_000_u64, "read": access, "write": access}],
    })
}

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.path("w.json"), workload().to_string()).unwrap();
    std::fs::write(place.path("p.json"), profile().to_string()).unwrap();
    place
}

fn arguments<'a>(verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[verb, "w.json", "--profile", "p.json"], more].concat()
}

fn answer(place: &Place, verb: &str, more: &[&str]) -> Value {
    let arguments = [&arguments(verb, more)[..], &["--json"]].concat();
    serde_json::from_str(&place.run(&arguments).code(0).out).unwrap()
}

#[test]
fn a_prediction_says_when_where_and_why() {
    let place = place();
    let found = answer(&place, "predict", &["--runs", "4"]);
    assert_eq!(found["kind"], "prediction");
    assert_eq!(found["basis"]["profile"]["source"], "assumed");
    assert_eq!(found["configuration"]["placement"], "local");
    assert_eq!(
        (&found["makespan_seconds"]["runs"], &found["configuration"]["hosts"]),
        (&4.into(), &4.into())
    );
    assert!(found["makespan_seconds"]["half_width"].as_f64().unwrap() > 0.0);
    let first = &found["first_run"];
    assert_eq!(
        (first["tasks"].as_array().unwrap().len(), first["stages"].as_array().unwrap().len()),
        (9, 3)
    );
    assert!(first["makespan_seconds"].as_f64().unwrap() > 1.5);
    // All but `run` is the same again, on any number of threads.
    let mut again = answer(&place, "predict", &["--runs", "4", "--threads", "1"]);
    again["run"] = found["run"].clone();
    assert_eq!(again, found);
    let other = answer(&place, "predict", &["--runs", "4", "--seed", "9"]);
    assert_ne!(other["makespan_seconds"], found["makespan_seconds"]);
    let text = place.run(&arguments("predict", &[])).code(0);
    text.prints("pipelines: 9 tasks, 13 files, on 'lab' (assumed: a test)")
        .prints("makespan")
        .prints("links in")
        .prints("second")
        .prints("host hours")
        .prints("engine: not measured; what a workflow engine takes for each task is not in this");
}

/// A profile whose links were measured in rounds, and that was held against two runs.
fn measured() -> Value {
    let mut profile = profile();
    let places = json!(["host.in_bytes_per_second", "host.out_bytes_per_second"]);
    let covers = json!({"runs": 2, "hosts": [2, 2], "tasks": [9, 9], "moved_bytes": [1, 1_000_000_000],
                        "placements": ["local"]});
    profile["measured"] = json!({
        "numbers": {"link": {"places": places, "value": 125e6, "by_round": [115e6, 125e6, 135e6]}},
        "refinement": {"covers": covers, "runs": [{"makespan_ratio": 1.1}, {"makespan_ratio": 0.95}]},
    });
    profile
}

#[test]
fn every_answer_has_an_interval_and_says_what_it_covers() {
    let place = place();
    std::fs::write(place.path("p.json"), measured().to_string()).unwrap();
    let found = answer(&place, "predict", &["--hosts", "4"]);
    let makespan = &found["makespan_seconds"];
    let ends = |interval: &Value| {
        ["low", "high"].map(|end| interval[end].as_f64().unwrap_or_else(|| panic!("{interval}")))
    };
    let [low, high] = ends(&makespan["interval"]);
    let mean = makespan["mean"].as_f64().unwrap();
    assert!(low < 0.9 * mean && 1.1 * mean < high, "{makespan}");
    assert_eq!(makespan["runs"], 10);
    let uncertainty = &found["uncertainty"];
    assert_eq!(
        ["runs", "variants", "rounds", "compared_runs"].map(|field| uncertainty[field].as_u64()),
        [Some(10), Some(10), Some(3), Some(2)]
    );
    assert_eq!(uncertainty["covers"].as_array().unwrap().len(), 3);
    assert_eq!(uncertainty["unknown"], json!([]));
    assert!(found["outside"][0].as_str().unwrap().starts_with("4 hosts, where"));
    place
        .run(&arguments("predict", &[]))
        .code(0)
        .prints("s (90 % of runs: ")
        .prints("the 90 % interval covers what is drawn in each run (10 runs), the measured numbers of the profile (by 3 rounds), the error of the model (by 2 runs held against it)")
        .prints("outside of what was measured: 4 hosts, where");
    let advice = answer(&place, "advise", &["--top", "20"]);
    for point in &advice["points"].as_array().unwrap()[..20] {
        let [low, high] = ends(&point["interval"]);
        let seconds = point["seconds"].as_f64().unwrap();
        assert!(low < seconds && seconds < high && point["runs"] == 5, "{point}");
    }
    assert_eq!(advice["uncertainty"]["compared_runs"], 2);
    place
        .run(&arguments("advise", &[]))
        .code(0)
        .prints("90 % of runs")
        .prints("the error of the model (by 2 runs held against it)");
}

#[test]
fn constants_that_nobody_measured_have_no_interval() {
    let place = place();
    let mut constants = profile();
    constants["manager"]["allocate_seconds"] = 1e-4.into();
    std::fs::write(place.path("p.json"), constants.to_string()).unwrap();
    let makespan = &answer(&place, "predict", &["--runs", "5"])["makespan_seconds"];
    assert_eq!((&makespan["interval"], &makespan["runs"]), (&Value::Null, &5.into()));
    for verb in ["predict", "advise"] {
        let text = place.run(&arguments(verb, &[])).code(0);
        assert!(!text.out.contains('±'), "{}", text.out);
        text.prints("no interval can be given")
            .prints(
                "error of the numbers unknown: they were not measured in rounds (intarsia seed)",
            )
            .prints("error of the model unknown: no run was compared (intarsia refine)");
    }
    // Of times that are drawn in each run this much is known.
    std::fs::write(place.path("p.json"), profile().to_string()).unwrap();
    place
        .run(&arguments("predict", &[]))
        .code(0)
        .prints("the 90 % interval covers what is drawn in each run (10 runs)\n")
        .prints("error of the numbers unknown");
}

#[test]
fn flags_change_what_the_file_says_and_that_changes_the_default() {
    let place = place();
    let text = json!({"format": "intarsia-configuration", "version": 1, "placement": "round-robin",
                      "chunk_bytes": 65536, "hosts": 3});
    std::fs::write(place.path("c.json"), text.to_string()).unwrap();
    let flags = [
        "--configuration",
        "c.json",
        "--chunk",
        "256KiB",
        "--copies",
        "2",
        "--metadata-hosts",
        "1",
    ];
    let configuration = &answer(&place, "predict", &flags)["configuration"];
    let expected = json!({
        "hosts": 3, "storage_hosts": null, "managers": 1, "managers_apart": true, "manager_copies": 1, "placement": "round-robin",
        "chunk_bytes": 262_144, "stripe_width": 4, "copies": 2, "copy_order": "chain", "write_waits_for": "all",
        "scheduler": "local", "follows_hints": true, "frequency_mhz": null, "second_run_percent": null,
        "tier": null, "patterns": {},
    });
    assert_eq!(configuration, &expected);
}

#[test]
fn a_workload_comes_from_standard_input_too() {
    let place = place();
    let mut child = place
        .command(&["predict", "-", "--profile", "p.json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(workload().to_string().as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn advice_names_the_best_and_what_decides() {
    let place = place();
    let advice = answer(&place, "advise", &[]);
    let points = advice["points"].as_array().unwrap();
    assert!(points.len() > 40, "{}", points.len());
    let at = |place: &Value| &points[usize::try_from(place.as_u64().unwrap()).unwrap()];
    let best = at(&advice["fastest"]);
    assert_ne!(best["configuration"]["placement"], "round-robin");
    assert_eq!((&best["configuration"]["scheduler"], &best["runs"]), (&"local".into(), &5.into()));
    assert_eq!(at(&advice["cheapest"])["configuration"]["hosts"], 1);
    assert!(advice["pareto"].as_array().unwrap().len() >= 2);
    let text = place.run(&arguments("advise", &["--top", "3", "--within", "1h"])).code(0);
    text.prints("Recommended: 4 hosts")
        .prints("Cheapest within 1h: 1 host,")
        .prints("Choice of hosts: 4 gives");
    // One point is enough, and what cannot be is left out with its reason.
    let few = [
        "--hosts",
        "2",
        "--storage-hosts",
        "all,7",
        "--placement",
        "local",
        "--chunk",
        "1MiB",
        "--scheduler",
        "location",
    ];
    assert_eq!(answer(&place, "advise", &few)["points"].as_array().unwrap().len(), 1);
    let late = place.run(&arguments("advise", &["--within", "1s"])).code(3);
    late.says("no configuration ends within the time");
}

#[test]
fn what_a_change_saves_is_told_of_the_configurations_that_are_listed() {
    let place = place();
    let listed = json!([{"hosts": 2, "placement": "round-robin"}, {"hosts": 1}]);
    std::fs::write(place.path("c.json"), listed.to_string()).unwrap();
    let of = |change: &str| {
        let more = ["--configurations", "c.json", "--what-if", change];
        answer(&place, "advise", &more)["what_if"][0].clone()
    };
    let same = of("host.in_bytes_per_second=125e6");
    assert_eq!(
        (&same["saved_seconds"]["mean"], &same["advice_changes"], &same["is_undecided"]),
        (&json!(0.0), &json!(false), &json!(true)),
        "a field that is set to its own value saves nothing"
    );
    assert_eq!(same["after"]["points"].as_array().unwrap().len(), 2);
    let faster = of("host.in_bytes_per_second=x10");
    assert!(faster["saved_seconds"]["mean"].as_f64().unwrap() > 0.0, "{faster}");
}

#[test]
fn an_advice_says_which_files_are_to_have_which_hints() {
    let place = place();
    let files = json!([{"name": "genome-1.idx", "size_bytes": 200_000_000}, {"name": "out", "size_bytes": 1}]);
    let mut tasks = vec![json!({"name": "make", "writes": ["genome-1.idx"]})];
    tasks.extend((0..4).map(|n| {
        json!({"name": format!("use-{n}"), "stage": "use", "reads": ["genome-1.idx"], "compute_seconds": 30})
    }));
    let workload =
        json!({"format": "intarsia-workload", "version": 1, "files": files, "tasks": tasks});
    std::fs::write(place.path("w.json"), workload.to_string()).unwrap();
    let advice = answer(&place, "advise", &["--hosts", "4"]);
    let best = &advice["points"][0]["configuration"];
    let hints = best["patterns"]["broadcast"].as_object().unwrap();
    let rule = &advice["rules"][0];
    assert_eq!((&rule["pattern"], &rule["files"]), (&json!("broadcast"), &json!(1)), "{advice}");
    let words = rule["rule"].as_str().unwrap();
    assert!(words.starts_with("genome-*.idx ") && !hints.is_empty(), "{words}");
    place
        .run(&arguments("advise", &["--hosts", "4"]))
        .code(0)
        .prints("broadcast files p")
        .prints("Files that are read by several tasks (1 file) have the hints")
        .prints("Rules for a store")
        .prints(words);
    let plain = answer(&place, "advise", &["--hosts", "4", "--no-pattern-hints"]);
    assert_eq!(plain["points"][0]["configuration"]["patterns"], json!({}));
    assert_eq!(plain["rules"], json!([]));
    // What is advised can be asked for again.
    let with_form = json!({"format": "intarsia-configuration", "version": 1});
    let mut again = best.as_object().unwrap().clone();
    again.extend(with_form.as_object().unwrap().clone());
    std::fs::write(place.path("c.json"), Value::Object(again).to_string()).unwrap();
    let found = answer(&place, "predict", &["--configuration", "c.json"]);
    assert_eq!(found["configuration"], *best);
}

#[test]
fn what_is_wrong_is_named_with_the_file_and_the_field() {
    let place = place();
    let refused = |more: &[&str]| place.run(&arguments("predict", more)).code(2);
    refused(&["--placement", "locale"]).says("did you mean 'local'?");
    refused(&["--hosts", "5"]).says("5 hosts, but profile 'lab' has 4");
    refused(&["--storage-hosts", "4"])
        .says("leave none to run tasks")
        .says("help: take more hosts");
    refused(&["--configuration", "none.json"]).says("none.json");
    place.run(&["predict", "w.json"]).code(2).says("--profile");
    place
        .run(&["predict", "none.json", "--profile", "p.json"])
        .code(2)
        .says("none.json")
        .says("readable JSON");
    place
        .run(&["predict", "p.json", "--profile", "p.json"])
        .code(2)
        .says("p.json: format: 'intarsia-profile' is not");
    place
        .run(&["advise", "w.json", "--profile", "w.json"])
        .code(2)
        .says("w.json: format: 'intarsia-workload' is not");
    let bad = |change: &dyn Fn(&mut Value), says: &str| {
        let mut text = workload();
        change(&mut text);
        std::fs::write(place.path("bad.json"), text.to_string()).unwrap();
        place.run(&["predict", "bad.json", "--profile", "p.json"]).code(2).says(says);
    };
    bad(
        &|w| w["files"][1]["size_bytes"] = (-1).into(),
        "bad.json: files[1].size_bytes: -1 is negative",
    );
    bad(
        &|w| w["tasks"][0]["reads"][0] = "gone".into(),
        "bad.json: tasks[0].reads[0]: no file 'gone'",
    );
    bad(&|w| w["tasks"][0]["after"] = json!(["sum"]), "bad.json: tasks: the tasks form a cycle");
    std::fs::write(place.path("cut.json"), &workload().to_string()[..99]).unwrap();
    place
        .run(&["predict", "cut.json", "--profile", "p.json"])
        .code(2)
        .says("the file ends too early");
    let mut full = profile();
    full["tiers"][0]["capacity_bytes"] = 1_000_000.into();
    std::fs::write(place.path("full.json"), full.to_string()).unwrap();
    place.run(&["predict", "w.json", "--profile", "full.json"]).code(2).says("the store is full");
}

#[test]
fn an_input_of_no_bytes_is_a_warning() {
    let place = place();
    let mut text = workload();
    text["files"][1]["size_bytes"] = 0.into();
    std::fs::write(place.path("w.json"), text.to_string()).unwrap();
    place
        .run(&arguments("predict", &[]))
        .code(0)
        .says("warning: w.json: files[1]: the input 'in-0' has 0 bytes");
}

#[test]
fn a_profile_of_another_machine_or_kernel_is_a_warning() {
    let place = place();
    let uname = rustix::system::uname();
    let [host, kernel] = [uname.nodename(), uname.release()].map(|text| text.to_string_lossy());
    let warnings = |host: &str, kernel: &str| {
        let mut profile = profile();
        profile["provenance"] =
            json!({"source": "measured", "note": "a test", "host": host, "kernel": kernel});
        std::fs::write(place.path("p.json"), profile.to_string()).unwrap();
        answer(&place, "advise", &["--hosts", "1"])["basis"]["profile"]["warnings"].clone()
    };
    assert_eq!(warnings(&host, &kernel), json!([]));
    let said = warnings(&host, "2.6.0");
    assert!(said[0].as_str().unwrap().contains("with kernel 2.6.0, and"), "{said}");
    let said = warnings("no-such-host", &kernel);
    assert!(said[0].as_str().unwrap().contains("on 'no-such-host'"), "{said}");
    place
        .run(&arguments("predict", &[]))
        .code(0)
        .says("warning: p.json: provenance: measured on 'no-such-host'")
        .says("'intarsia seed'");
}

#[test]
fn help_teaches_by_example() {
    let place = Place::new();
    for verb in ["predict", "advise"] {
        let help = place.run(&[verb, "--help"]).code(0);
        help.prints("Examples:")
            .prints(&format!("intarsia {verb} montage.json --profile lab.json"));
    }
    // The examples of the help are what the program reads.
    let help = place.run(&["predict", "--help"]).code(0).out;
    let block = |title: &str| {
        let text = help.split(title).nth(1).unwrap();
        let lines = text
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with("  ") || line.starts_with(" {"));
        lines.collect::<Vec<_>>().join("\n")
    };
    std::fs::write(place.path("w.json"), block("A workload:")).unwrap();
    std::fs::write(place.path("p.json"), block("has it in its name:")).unwrap();
    place.run(&arguments("predict", &[])).code(0).prints("search");
}
