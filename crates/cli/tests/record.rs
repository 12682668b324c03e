//! Recording in a real mount: what a log tells, switched at run time, killed half way.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use common::{Place, has_fuse, wait_until};
use serde_json::Value;

fn records(place: &Place, log: &str) -> Vec<Value> {
    let shown = place.run(&["record", "show", log, "--json"]).code(0);
    shown.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["kind"] == kind).collect()
}

fn sh(dir: &Path, script: &str) {
    assert!(Command::new("sh").args(["-c", script]).current_dir(dir).status().unwrap().success());
}

/// Begins to record, does the work, and ends; what the log tells.
fn recorded(place: &Place, detail: &str, work: impl FnOnce(&Path)) -> Vec<Value> {
    place.run(&["record", "start", "--detail", detail]).code(0);
    work(&place.path("mnt"));
    let log = place.run(&["record", "stop"]).code(0).out.trim().to_owned();
    records(place, &log)
}

/// Files that are closed are released a moment later.
fn await_closes(place: &Place, mount: &Path) {
    let count = || place.run(&["record", "status", "--json"]).code(0).json()["log_bytes"].clone();
    let mut before = Value::Null;
    wait_until("a log that does not grow", || {
        let now = count();
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::mem::replace(&mut before, now.clone()) == now
    });
    assert!(mount.exists());
}

#[test]
fn a_log_tells_who_did_what() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&["--record", "coarse"]).code(0);
    let mount = place.path("mnt");
    sh(
        &mount,
        "mkdir d && seq 100000 > d/numbers && sort -n d/numbers > d/sorted && mv d/sorted last && rm d/numbers",
    );
    await_closes(&place, &mount);
    let log = place.run(&["record", "stop"]).code(0).says("Nothing is recorded any more").out;
    let records = records(&place, log.trim());
    assert_eq!(records[0]["kind"], "host");
    assert_eq!(records.last().unwrap()["kind"], "end");
    let size = (1..=100_000).map(|n: u32| n.to_string().len() + 1).sum::<usize>();
    let closes = of_kind(&records, "close");
    let written: u64 = closes.iter().filter_map(|c| c["written"]["bytes"].as_u64()).sum();
    let read: u64 = closes.iter().filter_map(|c| c["read"]["bytes"].as_u64()).sum();
    assert_eq!((written, read), (2 * size as u64, size as u64), "{closes:?}");
    let names: Vec<_> = of_kind(&records, "name").iter().map(|n| n["change"].clone()).collect();
    assert_eq!(names, ["make_directory", "rename", "unlink"]);
    let programs: Vec<_> =
        of_kind(&records, "process").iter().map(|p| p["program"].clone()).collect();
    assert!(programs.contains(&"sort".into()) && programs.contains(&"mv".into()), "{programs:?}");
    let opened = of_kind(&records, "open");
    assert!(opened.iter().all(|open| open["name"] != ""), "{opened:?}");
    assert!(of_kind(&records, "ended").len() >= 3);

    // Nothing more is written, and a new recording is a new log.
    sh(&mount, "cat last > /dev/null");
    assert_eq!(place.run(&["record", "status"]).code(0).out, log);
    let again = recorded(&place, "coarse", |mount| sh(mount, "touch other"));
    assert_eq!(again.len(), again.iter().filter(|r| r["kind"] != "torn").count());
    place.run(&["down", "--purge"]).code(0);
    assert!(!place.path("store").exists(), "logs go with the data");
}

#[test]
fn fine_records_each_request_with_its_place() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let records = recorded(&place, "fine", |mount| {
        let mut file = std::fs::File::create_new(mount.join("f")).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        file.seek(SeekFrom::Start(500_000)).unwrap();
        file.write_all(&[2; 50_000]).unwrap();
        drop(file);
        let mut file = std::fs::File::open(mount.join("f")).unwrap();
        file.seek(SeekFrom::Start(400_000)).unwrap();
        file.read_exact(&mut [0; 4096]).unwrap();
        drop(file);
        await_closes(&place, mount);
    });
    let writes: Vec<_> = of_kind(&records, "range")
        .into_iter()
        .filter(|range| range["is_write"] == true)
        .map(|range| (range["offset"].as_u64().unwrap(), range["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(writes.first().unwrap().0, 0);
    assert_eq!(writes.iter().map(|(_, bytes)| bytes).sum::<u64>(), 150_000);
    assert!(writes.iter().any(|(offset, _)| *offset == 500_000), "{writes:?}");
    let reads = of_kind(&records, "range").into_iter().filter(|range| range["is_write"] == false);
    assert!(reads.clone().count() > 0);
    assert!(reads.clone().any(|range| range["offset"].as_u64().unwrap() <= 400_000));
    let closes = of_kind(&records, "close");
    assert!(closes.iter().all(|c| c["written"]["how"] == "seen" && c["read"]["how"] == "seen"));
    place.run(&["down", "--purge"]).code(0);
}

#[test]
fn a_node_that_is_killed_leaves_a_log_that_is_read() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&["--record", "coarse"]).code(0);
    let mount = place.path("mnt");
    sh(&mount, "echo one > a; echo two > b");
    await_closes(&place, &mount);
    let log = place.run(&["record", "status"]).code(0).out.trim().to_owned();
    let killed = Command::new("kill").args(["-9", &place.node_pid().to_string()]).status();
    assert!(killed.unwrap().success());
    let found = records(&place, &log);
    assert_eq!(of_kind(&found, "close").len(), 2);
    assert!(of_kind(&found, "end").is_empty());
    place.up(&[]).code(0);
    place.run(&["down", "--purge"]).code(0);
}

#[test]
fn a_log_ends_when_it_is_full_and_says_so() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&["--record", "coarse", "--record-limit", "64KiB"]).code(0);
    let mount = place.path("mnt");
    sh(&mount, "i=0; while [ $i -lt 3000 ]; do echo $i > file-$i; i=$((i+1)); done");
    let status = || place.run(&["record", "status", "--json"]).code(0).json();
    wait_until("the end of the log", || status()["ended"].is_string());
    assert_eq!(status()["detail"], "off");
    assert!(status()["log_bytes"].as_u64().unwrap() <= 64 << 10);
    place.run(&["record", "status"]).code(0).says("the log is full");
    let log = status()["log"].as_str().unwrap().to_owned();
    assert_eq!(records(&place, &log).last().unwrap()["is_full"], true);
    place.run(&["down", "--purge"]).code(0);
}

#[test]
fn what_is_no_log_is_refused() {
    let place = Place::new();
    std::fs::write(place.path("x"), "no log").unwrap();
    place
        .run(&["record", "show", &place.text("x")])
        .code(2)
        .says("is no log of recorded operations");
    place.run(&["record", "show", &place.text("y")]).code(1).says("No such file");
    place.run(&["record", "start", "--detail", "all"]).code(2).says("give off, coarse or fine");
    place.run(&["record", "start", "--detail", "off"]).code(2).says("record stop");
    place.run(&["record", "status", &place.text("mnt")]).code(5).says("no store is up");
}
