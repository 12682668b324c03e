//! The patches that take remedies back apply to the tree, so that `scripts/sim_remedies.py` can always run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines that stand before each patch.
const HEADER: [&str; 3] = ["Fault: ", "Remedy: ", "Test: "];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn patches() -> Vec<PathBuf> {
    let directory = root().join("tests/sim/remedies");
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "patch")).collect()
}

#[test]
fn every_patch_says_which_fault_it_brings_back() {
    for patch in patches() {
        let text = std::fs::read_to_string(&patch).unwrap();
        let (header, _) = text.split_once("diff --git").unwrap();
        for key in HEADER {
            let is_said =
                header.lines().any(|line| line.len() > key.len() && line.starts_with(key));
            assert!(is_said, "{}: no line '{key}…' before the patch", patch.display());
        }
    }
}

#[test]
fn every_patch_applies() {
    let patches = patches();
    assert!(patches.len() >= 8, "they are somewhere else");
    for patch in patches {
        let mut check = Command::new("git");
        check.args(["apply", "--check"]).arg(&patch).current_dir(root());
        let output = check.output().unwrap();
        assert!(
            output.status.success(),
            "{} does not apply any more; make it anew, so that it takes the remedy back:\n{}",
            patch.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
