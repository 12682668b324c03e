//! The POSIX suite `pjdfstest` in the mount, with the exact list of what is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use intarsia_posix_tests::{Mode, Settings, Store, find_program, in_both_modes, skip};
use serde::Deserialize;

#[derive(Deserialize)]
struct Exclusion {
    reason: String,
    tests: BTreeSet<String>,
}

fn pjdfstest(mode: Mode) {
    let Some(program) = find_program("pjdfstest") else {
        return skip("pjdfstest is not installed (make test installs it)");
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let store = Store::start(Settings::new(mode));
    let other = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .arg("--configuration-file")
        .arg(here.join("pjdfstest.toml"))
        .arg("--secondary-fs")
        .arg(other.path())
        .arg("--path")
        .arg(store.mount())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(skipped(&said), excluded(here), "{said}");
    assert!(said.contains("Summary: 0 failed"), "{said}");
}

in_both_modes!(pjdfstest);

fn skipped(said: &str) -> BTreeSet<String> {
    let words = said.lines().filter_map(|line| line.trim_end().strip_suffix("skipped"));
    words.map(|name| name.trim().to_owned()).filter(|name| name.contains("::")).collect()
}

fn excluded(here: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(here.join("pjdfstest-exclusions.toml")).unwrap();
    let exclusions: BTreeMap<String, Exclusion> = toml::from_str(&text).unwrap();
    assert!(exclusions.values().all(|e| !e.reason.is_empty()), "every exclusion has its reason");
    exclusions.into_values().flat_map(|e| e.tests).collect()
}
