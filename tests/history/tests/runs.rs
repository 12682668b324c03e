//! Whole runs: on a local directory nothing is wrong; on two mounts that trust their caches much is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

fn history(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_history")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_local_directory_is_consistent() {
    let dir = tempfile::tempdir().unwrap();
    let (under_test, records) = (dir.path().join("t"), dir.path().join("records"));
    std::fs::create_dir(&under_test).unwrap();
    let arguments =
        ["--operations", "1500", "--clients", "4", "--seed", "11", "--directories", "2"];
    let (t, r) = (under_test.to_str().unwrap(), records.to_str().unwrap());
    let run = history(&[&["run", "--dir", t, "--records", r][..], &arguments].concat());
    assert!(run.status.success(), "{}", said(&run));
    assert!(said(&run).contains(" 0 violations, 0 undecided"), "{}", said(&run));
    let again = history(&["check", r]);
    assert_eq!(said(&again), said(&run), "the records give the same verdict again");
    let refused = history(&["run", "--dir", t, "--records", r]);
    assert!(said(&refused).contains("name an empty directory"), "{}", said(&refused));

    // A record that was tampered with: the last look at a size now gives another.
    let path = records.join("0.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = lines.iter_mut().rev().find(|l| l.contains("\"size\":")).unwrap();
    *line = line.replace("\"size\":", "\"size\":987654");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let found = history(&["check", r]);
    assert_eq!(found.status.code(), Some(1));
    assert!(said(&found).contains("saw by stat 987654"), "{}", said(&found));
}

#[test]
fn replacements_in_a_local_directory_are_consistent() {
    let dir = tempfile::tempdir().unwrap();
    let (under_test, records) = (dir.path().join("t"), dir.path().join("records"));
    std::fs::create_dir(&under_test).unwrap();
    let (t, r) = (under_test.to_str().unwrap(), records.to_str().unwrap());
    let arguments = ["--operations", "800", "--clients", "3", "--replacing"];
    let run = history(&[&["run", "--dir", t, "--records", r][..], &arguments].concat());
    assert!(run.status.success(), "{}", said(&run));
}

#[test]
fn a_client_that_cannot_begin_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let records = dir.path().join("records");
    let run =
        history(&["run", "--dir", "/no/such/directory", "--records", records.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(1));
    assert!(said(&run).contains("came to no end"), "{}", said(&run));
    let none = history(&["check", dir.path().to_str().unwrap()]);
    assert!(said(&none).contains("there are no records"), "{}", said(&none));
}

/// A bindfs mount, taken away at the end.
struct Bindfs(std::path::PathBuf);

impl Bindfs {
    /// `None` where there is no bindfs or no FUSE.
    fn mount(source: &Path, at: &Path, timeout: &str) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let options =
            format!("entry_timeout={timeout},attr_timeout={timeout},negative_timeout={timeout}");
        let mounted = Command::new("bindfs").args(["-o", &options]).arg(source).arg(at).status();
        mounted.is_ok_and(|s| s.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Bindfs {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3").arg("-u").arg(&self.0).status();
    }
}

/// Two mounts of one directory are two hosts, as far as caches go.
#[test]
fn caches_that_are_trusted_are_found_out_and_others_pass() {
    for (timeout, is_consistent) in [("0", true), ("5", false)] {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        std::fs::create_dir(&source).unwrap();
        let mount = |n: u32| Bindfs::mount(&source, &dir.path().join(format!("m{n}")), timeout);
        let (Some(_m1), Some(_m2)) = (mount(1), mount(2)) else {
            let must = std::env::var("INTARSIA_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
            assert!(!must, "bindfs cannot mount, and every test is required");
            let _ = writeln!(std::io::stderr(), "SKIPPED: bindfs cannot mount here");
            return;
        };
        let under_test = dir.path().join("m{}");
        let records = dir.path().join("records");
        let run = history(&[
            "run",
            "--dir",
            under_test.to_str().unwrap(),
            "--records",
            records.to_str().unwrap(),
            "--clients",
            "2",
            "--operations",
            "1000",
        ]);
        assert_eq!(
            run.status.success(),
            is_consistent,
            "time-outs of {timeout} s:\n{}",
            said(&run)
        );
        if !is_consistent {
            assert!(said(&run).contains("saw by stat"), "{}", said(&run));
        }
    }
}
