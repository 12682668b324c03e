//! Dependencies run downwards only, and what a layer must not touch it does not touch.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Crates by layer, lowest first; a crate may use crates of lower layers only.
const LAYERS: &[&[&str]] = &[
    &["types"],
    &["policy", "codec", "wire", "trace", "des", "lab", "sync"],
    &["meta", "store", "transport", "cluster", "predict", "simulate"],
    &["node"],
    &["mount"],
    &["cli"],
];
/// The only crates that may hold `unsafe`.
const MAY_BE_UNSAFE: &[&str] = &["codec", "store"];
/// Crates without I/O, clock or threads.
const PURE: &[&str] = &["types", "policy", "codec", "wire"];
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "Instant::now",
    "SystemTime::now",
    "async fn",
];
/// The one place in the pure crates that asks the clock, for callers that stamp things.
const PURE_EXCEPTIONS: &[&str] = &["crates/types/src/time.rs"];

/// Crates that run in a simulation: clock, locks and threads are those of `sync`.
const SIMULATED: &[&str] = &["meta", "mount", "node"];
/// What asks the system for them.
const OF_THE_SYSTEM: &[&str] = &[
    "parking_lot",
    "use std::thread;",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::thread::Builder",
    "std::thread::scope",
    "std::time::Instant",
    "SystemTime::now",
    "std::sync::Mutex",
    "std::sync::Condvar",
    "std::sync::RwLock",
    "std::sync::mpsc",
];

/// Where a call, or a part of one, gets its deadline; all others only ask how much of it is left.
const GRANT_DEADLINES: &[(&str, &str)] = &[
    ("crates/mount/src/calls.rs", "a call of a program"),
    ("crates/cli/src/runtime.rs", "the start of a host"),
    ("crates/node/src/peer/awaited.rs", "what another host asks for"),
    ("crates/node/src/lifecycle/closing.rs", "each file while the node closes"),
    ("crates/node/src/inode/unawaited.rs", "work on a file that nobody waits for"),
    ("crates/node/src/membership/gate.rs", "all questions of a node that closes"),
    ("crates/node/src/membership/sight.rs", "a report"),
    ("crates/node/src/replication/arrivals.rs", "a copy that comes in"),
    ("crates/node/src/replication/replicator.rs", "a publication that a close waits for"),
    ("crates/node/src/directory/neighbours.rs", "a lease on a directory that another host has"),
];

/// What a fence in documentation may name that opens an example of Rust.
const EXAMPLES: &[&str] = &["", "rust", "no_run", "should_panic", "compile_fail"];

/// What a source file has at most.
const LINES_MAX: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn crates() -> BTreeMap<String, toml::Table> {
    std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|dir| dir.join("Cargo.toml").exists())
        .map(|dir| {
            let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
            (name, text.parse().unwrap())
        })
        .collect()
}

fn rank(name: &str) -> usize {
    LAYERS
        .iter()
        .position(|layer| layer.contains(&name))
        .unwrap_or_else(|| panic!("crate '{name}' has no place in LAYERS: give it one"))
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

/// The source without its test module, which may do as it likes.
fn product_code(path: &Path) -> String {
    intarsia_tidy::rooms::product_code(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn dependencies_run_downwards() {
    for (name, manifest) in crates() {
        let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table)
        else {
            continue;
        };
        for used in dependencies.keys().filter_map(|k| k.strip_prefix("intarsia-")) {
            assert!(
                rank(used) < rank(&name),
                "crates/{name} uses {used}, which is not below it; move the shared part down"
            );
        }
    }
}

#[test]
fn unsafe_stays_where_it_is_reviewed() {
    for name in crates().keys().filter(|n| !MAY_BE_UNSAFE.contains(&n.as_str())) {
        for path in sources(&root().join("crates").join(name).join("src")) {
            let is_unsafe = product_code(&path).lines().any(|line| {
                let code = line.split("//").next().unwrap_or_default();
                code.contains("unsafe {")
                    || code.contains("unsafe fn")
                    || code.contains("unsafe impl")
            });
            assert!(!is_unsafe, "{}: unsafe belongs in codec or store", path.display());
        }
    }
}

/// Tests stand beside what they test, and do not count.
#[test]
fn source_files_stay_readable() {
    for name in crates().keys() {
        for path in sources(&root().join("crates").join(name).join("src")) {
            let lines = product_code(&path).lines().count();
            assert!(lines <= LINES_MAX, "{}: {lines} lines: split it", path.display());
        }
    }
}

#[test]
fn what_is_simulated_takes_clock_locks_and_threads_from_one_place() {
    for name in SIMULATED {
        for path in sources(&root().join("crates").join(name).join("src")) {
            let code = product_code(&path);
            let found = OF_THE_SYSTEM.iter().find(|what| code.contains(**what));
            assert!(found.is_none(), "{}: {found:?} is for crates/sync", path.display());
        }
    }
}

#[test]
fn deadlines_are_granted_where_calls_come_in() {
    let grants = ["allowance::grant(", "allowance::limit(", "allowance::insist("];
    for name in ["cli", "meta", "mount", "node"] {
        for path in sources(&root().join("crates").join(name).join("src")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
            let is_granting = grants.iter().any(|grant| code.contains(grant));
            let may = GRANT_DEADLINES.iter().any(|(file, _)| path.ends_with(file));
            assert_eq!(is_granting, may, "{}: see GRANT_DEADLINES", path.display());
        }
    }
}

#[test]
fn pure_crates_do_no_io() {
    for name in PURE {
        for path in sources(&root().join("crates").join(name).join("src")) {
            if PURE_EXCEPTIONS.iter().any(|e| path.ends_with(e)) {
                continue;
            }
            let code = product_code(&path);
            for word in IMPURE {
                assert!(!code.contains(word), "{}: '{word}' in a pure crate", path.display());
            }
        }
    }
}

#[test]
fn every_crate_takes_the_workspace_version_and_licence() {
    for (name, manifest) in crates() {
        let package = manifest["package"].as_table().unwrap();
        for field in ["version", "license", "edition", "rust-version"] {
            let inherits = package[field].as_table().is_some_and(|t| t.contains_key("workspace"));
            assert!(inherits, "crates/{name}: write '{field}.workspace = true'");
        }
    }
}

#[test]
fn crates_without_examples_are_not_compiled_for_them() {
    for (name, manifest) in crates() {
        let src = root().join("crates").join(&name).join("src");
        if !src.join("lib.rs").exists() {
            continue;
        }
        let compiles = manifest.get("lib").and_then(|lib| lib.get("doctest")?.as_bool());
        let has_examples = sources(&src).iter().any(|path| has_examples(path));
        assert_eq!(compiles.unwrap_or(true), has_examples, "crates/{name}: 'doctest' of [lib]");
    }
}

/// Whether the documentation in a file has an example: a fence that opens and names no other language.
fn has_examples(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap();
    let fences = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let said = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        said.trim_start().strip_prefix("```")
    });
    let mut opening = fences.step_by(2).map(|words| words.split(',').next().unwrap_or_default());
    opening.any(|word| EXAMPLES.contains(&word))
}
