//! What was published of BLAST and Montage on 20 and on 100 hosts, and what the model says of workflows of their shape.
//!
//! Costa's thesis has the numbers and sizes of Montage's files (table 3.4) and, of each stage, the share of its time that
//! tasks read and write; the size of BLAST's database was not published. Service times were not, either, so that only the
//! direction of each finding can be reproduced.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::Setup;
use intarsia_predict::configuration::{Placement, Scheduler};
use serde_json::json;

const LINK_BYTES_PER_SECOND: f64 = 125e6;
const TILES: u32 = 955;
const PAIRS: u32 = 2833;

/// Seconds that a task computes which moves so many bytes over a link and does that for `io_share` of its time.
#[expect(clippy::cast_precision_loss, reason = "bytes of files")]
fn compute_seconds(bytes: u64, io_share: f64) -> f64 {
    bytes as f64 / LINK_BYTES_PER_SECOND * (1.0 - io_share) / io_share
}

/// Adds a task that reads and writes files whole; those that it writes are new and of one size.
fn task(
    setup: Setup,
    (name, stage): (String, &str),
    (reads, read_bytes): (Vec<String>, u64),
    (writes, size_bytes): (Vec<String>, u64),
    io_share: f64,
) -> Setup {
    let bytes = read_bytes + size_bytes * writes.len() as u64;
    let setup = writes.iter().fold(setup, |setup, file| setup.file(file, size_bytes));
    setup.raw_task(json!({
        "name": name, "stage": stage, "reads": reads, "writes": writes,
        "compute_seconds": compute_seconds(bytes, io_share),
    }))
}

/// Montage as it ran on up to 100 hosts, without the tables of a few kilobytes, which four tasks of no length make.
fn montage(hosts: u32) -> Setup {
    let mut setup = Setup { app: hosts, collocated: true, ..Setup::default() };
    setup.configuration.placement = Placement::Collocate;
    setup.configuration.scheduler = Scheduler::Location;
    setup.configuration.chunk_bytes = 8 << 20;
    let two = |kind: &str, n: u32| vec![format!("{kind}-{n}"), format!("{kind}-area-{n}")];
    for n in 0..TILES {
        let raw = format!("raw-{n}");
        setup = setup.file(&raw, 2_000_000);
        let name = (format!("mProject-{n}"), "mProject");
        setup = task(setup, name, (vec![raw], 2_000_000), (two("proj", n), 4_190_000), 0.1);
    }
    for n in 0..PAIRS {
        // Each tile overlaps the next ones.
        let (one, other) = (n % TILES, (n + 1 + n / TILES) % TILES);
        let reads = [two("proj", one), two("proj", other)].concat();
        let name = (format!("mDiff-{n}"), "mDiff");
        setup = task(setup, name, (reads, 4 * 4_190_000), (two("diff", n), 460_000), 0.48);
    }
    let diffs = (0..PAIRS).map(|n| format!("diff-{n}")).collect();
    let name = ("mBgModel".to_owned(), "mBgModel");
    setup = task(setup, name, (diffs, 0), (vec!["corrections".to_owned()], 20_000), 0.1);
    for n in 0..TILES {
        let reads = [two("proj", n), vec!["corrections".to_owned()]].concat();
        let name = (format!("mBackground-{n}"), "mBackground");
        setup = task(setup, name, (reads, 2 * 4_190_000), (two("corr", n), 4_190_000), 0.46);
    }
    let corrected: Vec<String> = (0..TILES).flat_map(|n| two("corr", n)).collect();
    let (name, corrected) = (("mAdd".to_owned(), "mAdd"), (corrected, 8_000_000_000));
    setup = task(setup, name, corrected, (vec!["mosaic".to_owned()], 3_000_000_000), 0.49);
    let (name, mosaic) =
        (("mJPEG".to_owned(), "mJPEG"), (vec!["mosaic".to_owned()], 3_000_000_000));
    task(setup, name, mosaic, (vec!["picture".to_owned()], 47_000_000), 0.18)
}

/// Reproduced in direction: 75 hosts gain little over 15 and 100 nothing over 75, and fewer than 25 hosts take a fifth
/// longer than the fastest and cost a fourth.
#[test]
fn montage_pays_up_to_a_knee() {
    let seconds = |hosts: u32| montage(hosts).predict().makespan_seconds;
    let [few, some, many, all] = [5, 15, 75, 100].map(seconds);
    assert!(some < 0.7 * few, "up to 15 hosts it pays: {few} s, {some} s");
    assert!(many > 0.7 * some && many < some, "then less: {some} s, {many} s");
    assert!(all > 0.97 * many, "and from 75 not at all: {many} s, {all} s");
    let between = seconds(22);
    assert!(between < 1.25 * all, "a fifth longer: {between} s, {all} s");
    assert!(100.0 * all > 3.5 * 22.0 * between, "at a fourth of the cost");
}

/// A search by each of 14 hosts in a database that is dealt over five others.
fn search() -> Setup {
    let mut setup = Setup {
        app: 14,
        stores: 5,
        read_seconds: 1e-3,
        write_seconds: 1e-3,
        cache_bytes: 2_000_000_000,
        ..Setup::default()
    };
    setup.configuration.placement = Placement::RoundRobin;
    setup.configuration.stripe_width = 5;
    setup = setup.file("db", 200_000_000);
    for n in 0..56 {
        let out = format!("out-{n}");
        setup = setup.file(&out, 1_000_000).raw_task(json!({
            "name": format!("s-{n}"), "reads": ["db"], "compute_seconds": 2.0, "writes": [out],
        }));
    }
    setup
}

/// Reproduced in direction: the chunk and the split decide; who runs a task, how many copies results have and whether a
/// writer waits for these changes less than a hundredth. Which parameters had no effect there was not published.
#[test]
fn other_parameters_have_no_effect_on_a_search() {
    let base = search().predict().makespan_seconds;
    let with = |change: fn(&mut Setup)| {
        let mut setup = search();
        change(&mut setup);
        setup.predict().makespan_seconds
    };
    let scheduler = with(|setup| setup.configuration.scheduler = Scheduler::Location);
    let copies = with(|setup| {
        for file in setup.files.iter_mut().filter(|file| file["name"] != "db") {
            file["hints"] = json!({"replicas": "2"});
        }
    });
    let width = with(|setup| {
        for file in setup.files.iter_mut().filter(|file| file["name"] != "db") {
            file["hints"] = json!({"place": "stripe:2"});
        }
    });
    for (what, seconds) in [("scheduler", scheduler), ("copies", copies), ("width", width)] {
        assert!((seconds / base - 1.0).abs() < 0.01, "{what}: {seconds} s instead of {base} s");
    }
    let split =
        with(|setup| (setup.app, setup.stores, setup.configuration.stripe_width) = (18, 1, 1));
    assert!(split > 1.1 * base, "the split decides: {split} s, {base} s");
}
