//! Slurm's own reader of host expressions against ours, which reads more: letters after a bracket.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test may fail")]

use std::process::Command;

use intarsia_cluster::hosts::HostList;

#[test]
fn expands_as_scontrol_does() {
    let dir = tempfile::tempdir().unwrap();
    let configuration = dir.path().join("slurm.conf");
    // `scontrol show hostnames` asks no controller, but wants a configuration.
    std::fs::write(&configuration, "ClusterName=c\nSlurmctldHost=localhost\nNodeName=n1\n")
        .unwrap();
    let scontrol = |text: &str| {
        Command::new("scontrol")
            .args(["show", "hostnames", text])
            .env("SLURM_CONF", &configuration)
            .output()
    };
    if scontrol("n1").is_err() {
        let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
        assert!(!must, "scontrol is not installed, and INTARSIA_TEST_REQUIRE_ALL=1");
        eprintln!("SKIPPED: scontrol is not installed");
        return;
    }
    for text in [
        "a",
        "a,b-c,d2",
        "n[1-3,7],gpu[01-02]",
        "n[8-12]",
        "n[08-12]",
        "n[098-102]",
        "n[007,9,11-12]",
        "rack[1-2]node[3-5]",
        "r[1-2]n[01-02]",
        "n[001-10]",
        "n[00-03]",
    ] {
        let output = scontrol(text).unwrap();
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        let theirs = String::from_utf8(output.stdout).unwrap();
        let theirs: Vec<&str> = theirs.split_whitespace().collect();
        let list = HostList::from_expression("test", text).unwrap();
        let ours: Vec<&str> = list.hosts().iter().map(|h| h.0.as_str()).collect();
        assert_eq!(ours, theirs, "{text}");
    }
}
