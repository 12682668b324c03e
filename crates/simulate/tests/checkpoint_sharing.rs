//! Transfers that share the bandwidth of a storage, followed by hand.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use intarsia_simulate::progress::Progress;
use intarsia_simulate::report::Report;
use intarsia_simulate::scenario::Problem;

/// Two nodes that fail together after nine and a half hours; two hours of work between checkpoints
/// that take half an hour alone.
const PAIR: &str = "
    [machine]
    nodes = 2
    reboot = '30 min'
    [failures]
    first = 'ordinary'
    lifetime = { model = 'empirical', values = ['9.5 h'] }
    repair = { model = 'empirical', values = ['1 h'] }
    [[level]]
    name = 'pfs'
    kind = 'lower'
    write = '30 min'
    restore = '15 min'
    shared_storage = 'pfs'
    [checkpoint]
    interval = '2 h'
    [workload]
    size = 1
    walltime = '40 h'
    [run]
    horizon = '11.5 h'
    replications = 1
";

fn run(text: &str, trace: &str, set: &[&str]) -> Result<Report, Problem> {
    Ok(common::study(text, trace, set)?.run(1, &Progress::default()))
}

/// Hours of each category, from shares of `settled` hours.
fn assert_hours(report: &Report, settled: f64, expected: &[(&str, f64)]) {
    for (name, hours) in expected {
        let ours = report.estimate(name).unwrap().mean * settled;
        assert!((ours - hours).abs() < 1e-6, "{name}: {ours} h, expected {hours} h");
    }
}

/// ```text
///  3.0, 6.0, 9.0  both have worked for 2 h and written for 1 h
///  9.5            both fail; 10.5 repaired, 11.0 booted, 11.5 both have read for half an hour
/// ```
#[test]
fn two_equal_jobs_take_twice_as_long_to_write_and_to_read() {
    let report = run(PAIR, "", &[]).unwrap();
    let hours = [
        ("efficiency", 2.0 * 6.0),
        ("checkpoint_share", 2.0 * 3.0),
        ("lost_share", 2.0 * 0.5),
        ("repair_share", 2.0),
        ("boot_share", 2.0 * 0.5),
        ("restore_share", 2.0 * 0.5),
    ];
    assert_hours(&report, 23.0, &hours);
    // 'contention' shares writing alone: they have read by 11.25, and work.
    let text = PAIR.replace("shared_storage = 'pfs'", "contention = true");
    let report = run(&text, "", &["run.horizon=11.25 h"]).unwrap();
    assert_hours(&report, 22.5, &[("checkpoint_share", 6.0), ("restore_share", 0.5)]);
}

#[test]
fn a_job_alone_takes_its_time() {
    let report = run(PAIR, "", &["workload.size=2", "run.horizon=11.25 h"]).unwrap();
    // Checkpoints at 2.5, 5.0 and 7.5.
    let hours = [
        ("efficiency", 6.0),
        ("checkpoint_share", 1.5),
        ("lost_share", 2.0),
        ("restore_share", 0.25),
    ];
    assert_hours(&report, 11.25, &hours);
    // The same as without sharing, through many failures and several levels.
    let alone = |sharing: &str| {
        let text = PAIR
            .replace(
                "model = 'empirical', values = ['9.5 h']",
                "model = 'exponential', mean = '20 h'",
            )
            .replace("    shared_storage = 'pfs'", sharing)
            .replace(
                "[[level]]",
                "[[level]]\nname = 'disk'\nkind = 'local'\nwrite = '2 min'\n[[level]]\nevery = 3",
            );
        run(&text, "", &["workload.size=2", "run.horizon=300 days"]).unwrap()
    };
    let (with, without) = (alone("shared_storage = 'pfs'"), alone(""));
    for name in ["efficiency", "checkpoint_share", "lost_share", "restore_share"] {
        let (ours, theirs) = (with.estimate(name).unwrap(), without.estimate(name).unwrap());
        assert!((ours.mean - theirs.mean).abs() < 1e-7, "{name}: {ours:?}, {theirs:?}");
    }
}

/// The second job comes a quarter of an hour later:
///
/// ```text
/// 2.00  the first one begins to write
/// 2.25  the second one as well: 0.25 h are left of the first write, at half the bandwidth
/// 2.75  the first one is done; 0.25 h are left of the second write, at the whole bandwidth
/// 3.00  the second one is done
/// ```
#[test]
fn a_transfer_that_begins_slows_the_other_until_one_ends() {
    let trace = "; MaxProcs: 2\n\
        1 0 -1 144000 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n\
        2 900 -1 144000 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n";
    let text =
        PAIR.replace("size = 1\n    walltime = '40 h'", "trace = 't.swf'\n    repeat = false");
    let report = run(&text, trace, &["run.horizon=3 h"]).unwrap();
    // Settled are 2.75 h of the first job and 2.75 h of the second.
    assert_hours(&report, 5.5, &[("efficiency", 4.0), ("checkpoint_share", 1.5)]);
}

/// One job, whose first level is flushed to the storage that its second level is written to:
///
/// ```text
/// 0.5   the first checkpoint; its flush begins, 1.25 h alone
/// 1.0   the second one is written to the second level: half the bandwidth for 0.5 h of writing
/// 2.0   written; 0.25 h of the flush are left
/// 2.5   the work of 1.5 h is done
/// ```
#[test]
fn a_flush_of_one_level_slows_the_write_of_another() {
    let levels = "
    [[level]]
    name = 'buffer'
    kind = 'lower'
    write = '0 s'
    restore = '0 s'
    flush = { time = '75 min', overlap = 'queue' }
    shared_storage = 'pfs'
    [[level]]
    every = 2";
    let text = PAIR.replace("    [[level]]", levels).replace("'9.5 h'", "'1000 h'");
    let set = ["checkpoint.interval=30 min", "workload.walltime=1.5 h", "workload.size=2"];
    let stretch = |text: &str| run(text, "", &set).unwrap().estimate("stretch").unwrap().mean;
    let hours = 1.5 * stretch(&text);
    assert!((hours - 2.5).abs() < 1e-6, "{hours} h");
    // Through storages of their own they do not meet.
    let apart = 1.5 * stretch(&text.replacen("'pfs'", "'burst buffer'", 1));
    assert!((apart - 2.0).abs() < 1e-6, "{apart} h");
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let memory = "[machine]\n    memory_per_node = '1 GB'";
    let per_node = "bandwidth_per_node = '1 GB/s'";
    for (from, to, message, help) in [
        (
            "write = '30 min'",
            per_node,
            "pair.toml:15:22: level[0].shared_storage: for writing",
            "serves",
        ),
        (
            "restore = '15 min'",
            "reading = { bandwidth_per_node = '1 GB/s' }",
            "for reading the",
            "bandwidth",
        ),
        (
            "restore =",
            "flush = { bandwidth_per_node = '1 GB/s' }\nrestore =",
            "for 'flush' the nodes of each job have a bandwidth of their own",
            "bandwidth",
        ),
        ("shared_storage = 'pfs'", "shared_storage = ' '", "an empty name", "such as"),
        ("shared_storage =", "contention = true\nshared_storage =", "beside contention", "leave"),
        ("shared_storage = 'pfs'", "shared_storage = true", "shared_storage: ", ""),
        (
            "[checkpoint]",
            "[silent]\nnode_mtbe = '9 days'\nlatency = { model = 'exponential', mean = '1 h' }\n[checkpoint]",
            "errors that show after a latency need a single level, no flush, no sharing",
            "verification",
        ),
    ] {
        let text = PAIR.replacen(from, to, 1).replacen("[machine]", memory, 1);
        let problem = run(&text, "", &[]).err().unwrap();
        assert!(problem.message.contains(message), "{to}: {problem}");
        assert!(problem.help.as_deref().unwrap_or_default().contains(help), "{to}: {problem}");
    }
}
