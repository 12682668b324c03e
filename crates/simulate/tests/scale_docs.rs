//! What the manual shows can be run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod scale_support;

use intarsia_simulate::progress::Progress;
use intarsia_simulate::scale::{PRESETS, node_counts, study};
use intarsia_simulate::scenario::{Document, Layers};

const MANUAL: &str = include_str!("../../../docs/user/simulate-scale.md");

/// Largest machine that this test simulates; larger ones are only read.
const LARGEST: u32 = 1024;

fn run_all(document: &Document) {
    for count in node_counts(document).unwrap() {
        let mut document = document.clone();
        document.set(&format!("nodes.count={count}")).unwrap();
        let study = study(&document).unwrap_or_else(|e| panic!("{e}"));
        if count <= LARGEST {
            let report = study.findings(1, &Progress::default()).report;
            assert!(report.estimate("job.seconds").unwrap().mean > 0.0);
        }
    }
}

#[test]
fn the_scenarios_of_the_manual_run() {
    let mut blocks =
        MANUAL.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let count =
        blocks.by_ref().map(|text| run_all(&Document::parse("manual", text).unwrap())).count();
    assert_eq!(count, 2);
}

#[test]
fn the_commands_of_the_manual_name_presets_and_fields() {
    let commands =
        MANUAL.lines().filter_map(|l| l.strip_prefix("$ intarsia simulate scale --preset "));
    let mut count = 0;
    for command in commands {
        let words: Vec<&str> = command.split('#').next().unwrap().split_whitespace().collect();
        let after = |flag: &str| {
            words.iter().position(|word| *word == flag).map(|place| words[place + 1].to_owned())
        };
        let mut assignments: Vec<String> = after("--set").into_iter().collect();
        assignments.extend(after("--nodes").map(|nodes| format!("nodes.count=[{nodes}]")));
        let layers =
            Layers { preset: Some(words[0]), assignments: &assignments, ..Layers::default() };
        run_all(&layers.document("scale", PRESETS).unwrap_or_else(|e| panic!("{command}: {e}")));
        count += 1;
    }
    assert!(count >= 4, "{count}");
}

#[test]
fn every_preset_runs_small() {
    for preset in PRESETS {
        let assignments = ["nodes.count=64".to_owned(), "workload.transfers=1".to_owned()];
        let layers =
            Layers { preset: Some(preset.name), assignments: &assignments, ..Layers::default() };
        run_all(&layers.document("scale", PRESETS).unwrap());
    }
}

/// The figures of the first example.
#[test]
fn the_first_example_is_what_the_program_prints() {
    let study = scale_support::preset("fusionsim-bgp", &["nodes.count=512"]);
    let report = scale_support::report(&study);
    let rate = scale_support::mean(&report, "write.throughput");
    assert!(MANUAL.contains(&format!("{:.2} GB/s", rate / 1e9)), "{rate}");
}
