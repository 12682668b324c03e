//! The state machine and the accounting, followed by hand: failures come at fixed times.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use intarsia_simulate::report::Report;
use intarsia_simulate::scenario::Layers;

/// One node that fails every nine hours; two hours of work between checkpoints of half an hour.
const CLOCKWORK: &str = "
    [machine]
    nodes = 1
    reboot = '30 min'
    [failures]
    first = 'ordinary'
    lifetime = { model = 'empirical', values = ['9 h'] }
    repair = { model = 'empirical', values = ['1 h'] }
    [[level]]
    name = 'disk'
    kind = 'lower'
    write = '30 min'
    restore = '15 min'
    [checkpoint]
    interval = '2 h'
    [workload]
    walltime = '12 h'
    [run]
    horizon = '20 h'
    replications = 1
";

fn run(text: &str, set: &[&str]) -> Report {
    let set: Vec<String> = set.iter().map(|field| (*field).to_owned()).collect();
    common::run(Layers { file: Some(("clockwork.toml", text)), ..Layers::default() }, &set).unwrap()
}

/// Hours of each category, from shares of `settled` hours.
fn assert_hours(report: &Report, settled: f64, expected: &[(&str, f64)]) {
    for (name, hours) in expected {
        let ours = report.estimate(name).unwrap().mean * settled;
        assert!((ours - hours).abs() < 1e-9, "{name}: {ours} h, expected {hours} h");
    }
}

/// ```text
///  0.00  runs: 3 checkpoints until 7.50
///  9.00  fails: 1.5 h lost; repair 1 h, reboot 0.5 h, restore 0.25 h
/// 10.75  runs on from 6 h of work: 2 checkpoints
/// 17.75  complete; reboots
/// 18.00  fails during the reboot: repair 1 h, reboot 0.5 h
/// 19.50  finished; the next job starts
/// 20.00  the end: 0.5 h unsettled
/// ```
#[test]
fn a_day_in_the_life_of_a_node() {
    let report = run(CLOCKWORK, &[]);
    let hours = [
        ("efficiency", 12.0),
        ("checkpoint_share", 2.5),
        ("lost_share", 1.5),
        ("repair_share", 2.0),
        ("boot_share", 1.25),
        ("restore_share", 0.25),
    ];
    assert_hours(&report, 19.5, &hours);
    let count = |name: &str| report.estimate(name).unwrap().mean;
    assert_eq!((count("jobs_finished"), count("interruptions")), (1.0, 2.0));
    assert!((count("stretch") - 17.75 / 12.0).abs() < 1e-12);
}

/// Failures come faster than a job of 12 h: it begins anew at 10.5, 20.5 … and never ends.
#[test]
fn without_checkpoints_a_job_begins_anew() {
    let report = run(CLOCKWORK, &["checkpoint.enabled=false", "run.horizon=27 h"]);
    // Lost: 0 to 9, 10.5 to 18, 19.5 to 27.
    let hours = [("efficiency", 0.0), ("lost_share", 24.0), ("repair_share", 2.0)];
    assert_hours(&report, 27.0, &hours);
    assert_eq!(report.estimate("jobs_finished").unwrap().mean, 0.0);
}

/// A second failure during a repair is waited for as well.
#[test]
fn a_failure_during_a_repair_prolongs_it() {
    let report = run(CLOCKWORK, &["failures.repair.values=['9.5 h']", "run.horizon=27 h"]);
    // 9.0 fails; 18.0 fails again, half an hour before the repair ends; 27.0 once more.
    assert_hours(&report, 27.0, &[("repair_share", 18.0), ("boot_share", 0.0)]);
}

/// A spare takes the place of the failed node at once; the failed one becomes the spare later.
#[test]
fn spares_save_the_wait_while_there_are_any() {
    let text = CLOCKWORK.replace("nodes = 1\n", "nodes = 1\nspares = 1\n");
    let report = run(&text, &["run.horizon=27 h"]);
    assert_hours(&report, 27.0, &[("repair_share", 0.0)]);
    let report = run(&text, &["failures.repair.values=['9.5 h']", "run.horizon=26 h"]);
    // 9.0 the spare steps in; 18.0 it fails while the first node is repaired until 18.5.
    assert_hours(&report, 26.0, &[("repair_share", 8.0)]);
}

/// Two jobs that write at the same time take twice as long when they share the bandwidth.
#[test]
fn jobs_share_a_bandwidth() {
    let text = CLOCKWORK
        .replace("nodes = 1\n", "nodes = 2\n")
        .replace("'9 h'", "'9000 h'")
        .replace("[workload]\n", "[workload]\nsize = 1\n")
        .replace("'12 h'", "'4 h'");
    let set = ["run.horizon=5 h", "level.disk.contention=true"];
    let report = run(&text, &set);
    // Each: 2 h of work, 1 h of writing, 2 h of work; in node hours.
    assert_hours(&report, 10.0, &[("efficiency", 8.0), ("checkpoint_share", 2.0)]);
    // A lone job takes its half hour.
    let report = run(&text, &["workload.size=2", "run.horizon=4.5 h", set[1]]);
    assert_hours(&report, 4.5, &[("efficiency", 4.0), ("checkpoint_share", 0.5)]);
}

/// When only processes end, nothing reboots.
#[test]
fn processes_that_end_need_no_reboot() {
    let text = CLOCKWORK.replace("[[level]]", "shares = { process = 1 }\n[[level]]");
    let report = run(&text, &["run.horizon=17 h"]);
    // 9.0 fails, 10.0 repaired, 10.25 restored, 17.0 the end: 6.75 h later, with 2 checkpoints.
    let hours = [("boot_share", 0.0), ("restore_share", 0.25), ("efficiency", 10.0)];
    assert_hours(&report, 15.25, &hours);
}

/// Two levels: the memory is lost with the node, so the job goes back to the safer checkpoint.
#[test]
fn a_lost_node_goes_back_to_the_safer_level() {
    let text = CLOCKWORK.replace(
        "    [[level]]\n",
        "    [[level]]\nname = 'ram'\nkind = 'memory'\nwrite = '0 s'\nrestore = '0 s'\n[[level]]\nevery = 2\n",
    );
    let report = run(&text, &["run.horizon=11 h"]);
    // Checkpoints at 2.0 (ram), 4.5 (disk), 6.5 (ram), 9.0 (disk). The failure at 9.0 comes after it.
    assert_hours(&report, 10.75, &[("efficiency", 8.0), ("lost_share", 0.0)]);
    let report = run(&text, &["run.horizon=10.7 h", "failures.lifetime.values=['8.9 h']"]);
    // At 8.9 the newest on the disk holds 4 h of work; 2 h that the memory held are lost after all.
    assert_hours(&report, 10.65, &[("efficiency", 4.0), ("lost_share", 4.4)]);
    assert_hours(&report, 10.65, &[("checkpoint_share", 0.5)]);
}

/// A transfer in the background makes a checkpoint safe only when it is done.
#[test]
fn a_flush_must_be_complete() {
    let text = CLOCKWORK.replace("restore =", "flush = { time = '2 h' }\nrestore =");
    let report = run(&text, &["run.horizon=10.75 h"]);
    // The third checkpoint was complete at 7.5, its transfer would be at 9.5: back to 4 h of work.
    assert_hours(&report, 10.75, &[("efficiency", 4.0), ("lost_share", 3.5)]);
}
