//! A few seeds on every change; `make sim` runs many.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments).output().unwrap()
}

#[test]
fn nothing_fails_where_nothing_breaks() {
    for seed in ["1", "2", "3"] {
        let output = sim(&["--seed", seed, "--seconds", "5", "--faults", "none"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {text}");
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(report.contains(r#""failures":{}"#) && report.contains(r#""violations":[]"#));
    }
}

#[test]
fn whatever_breaks_nothing_acknowledged_is_lost_and_nobody_sees_what_cannot_be() {
    let output = sim(&["--seeds", "6", "--from", "1", "--seconds", "12"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_seed_does_the_same_again() {
    // The second has striped files.
    for seed in ["11", "9"] {
        let run = || sim(&["--seed", seed, "--seconds", "8"]).stdout;
        let first = run();
        assert!(!first.is_empty());
        assert_eq!(first, run(), "seed {seed}");
    }
}
