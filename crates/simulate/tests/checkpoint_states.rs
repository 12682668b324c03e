//! The state machine and the accounting, followed by hand: failures come at fixed times.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use intarsia_simulate::checkpoint;
use intarsia_simulate::progress::Progress;
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

/// When only processes end, nothing reboots and nothing is repaired: they start again at once.
#[test]
fn processes_that_end_start_again_at_once() {
    let text = CLOCKWORK.replace("[[level]]", "shares = { process = 1 }\n[[level]]");
    let report = run(&text, &["run.horizon=16.2 h"]);
    // 9.0 fails, 9.25 restored, 14.25 the fifth checkpoint, 16.2 the end.
    let hours =
        [("boot_share", 0.0), ("repair_share", 0.0), ("restore_share", 0.25), ("efficiency", 10.0)];
    assert_hours(&report, 14.25, &hours);
    // Nor do they take a spare, which the loss of the node after them needs.
    let spared = text.replace("nodes = 1\n", "nodes = 1\nspares = 1\n");
    assert_hours(&run(&spared, &["run.horizon=16.2 h"]), 14.25, &hours);
}

/// A spare that takes the place of a node under repair cannot read the disk of that node.
#[test]
fn a_spare_has_no_local_checkpoint() {
    let text = CLOCKWORK.replace("[[level]]", "shares = { reboot = 1 }\n[[level]]");
    let spared = text.replace("nodes = 1\n", "nodes = 1\nspares = 1\n");
    let report = run(&spared, &["level.disk.kind=local", "run.horizon=12 h"]);
    // 9.0 the spare steps in, 9.5 rebooted, from the beginning; 12.0 the first checkpoint.
    let hours = [("efficiency", 2.0), ("lost_share", 7.5), ("restore_share", 0.0)];
    assert_hours(&report, 12.0, &hours);
    // The node itself reads it when it comes back, at 10.0.
    let report = run(&text, &["level.disk.kind=local", "run.horizon=13.25 h"]);
    assert_hours(&report, 13.25, &[("efficiency", 8.0), ("repair_share", 1.0)]);
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

/// A job of six intervals of 2 h, checkpoints of half an hour, transfers of 5 h that halve its speed:
///
/// ```text
/// wait    2.5  then 4 h of slow work, half an hour of writing, and until the transfer is done: 5 h
///              for each further checkpoint; slow at last: 2.5 + 4 · 5 + 4 h
/// queue   2.5  always slow: 4.5 h a checkpoint, 2.5 + 4 · 4.5 + 4 h
/// skip    2.5  7.0 skipped, fast from 7.5; 9.75; 14.25 skipped, fast from 14.75; 17.0; slow to 21.0
/// ```
#[test]
fn transfers_that_overlap_wait_queue_or_are_skipped() {
    for (overlap, hours) in [("wait", 26.5), ("queue", 24.5), ("skip", 21.0)] {
        let flush = format!("flush = {{ time = '5 h', slowdown = 0.5, overlap = '{overlap}' }}");
        let text = CLOCKWORK.replace("restore =", &format!("{flush}\nrestore ="));
        let report = run(&text, &["failures.lifetime.values=['1000 h']", "run.horizon=50 h"]);
        let stretch = report.estimate("stretch").unwrap().mean;
        assert!((stretch - hours / 12.0).abs() < 1e-9, "{overlap}: {} h", stretch * 12.0);
    }
}

/// What a transfer takes from the job, it takes after the checkpoint and not before.
#[test]
fn a_transfer_slows_the_work_beside_it() {
    let text = CLOCKWORK
        .replace("restore =", "flush = { time = '2 h', slowdown = 0.5 }\nrestore =")
        .replace("'9 h'", "'5 h'");
    let report = run(&text, &["run.horizon=5 h"]);
    // 2.5 the first checkpoint, 4.5 it is transferred and 1 h of work is done, 5.0 fails.
    assert_hours(&report, 5.0, &[("efficiency", 2.0), ("checkpoint_share", 0.5)]);
    assert_hours(&report, 5.0, &[("lost_share", 2.5)]);
}

/// A machine that fails every nanosecond would be simulated for ever.
#[test]
fn failures_without_end_are_refused() {
    let refusal = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|field| (*field).to_owned()).collect();
        common::run(Layers { preset: Some("rxsim-pfs"), ..Layers::default() }, &set)
    };
    let problem = refusal(&["failures.lifetime.mean=1 s"]).unwrap_err();
    assert!(problem.message.contains("fails every 9.5e-7 s, 1.7e14 times"), "{problem}");
    assert!(problem.help.unwrap().contains("run.horizon"));
    refusal(&["failures.lifetime.mean=1 s", "run.horizon=1 ms", "run.replications=1"]).unwrap();
}

/// An interval of a nanosecond, where each checkpoint is an event.
#[test]
fn checkpoints_without_end_are_refused() {
    let text = CLOCKWORK.replace("restore =", "flush = { time = '2 h' }\nrestore =");
    let set = ["checkpoint.interval=0.000001 s".to_owned(), "level.disk.write=0 s".to_owned()];
    let layers = Layers { file: Some(("clockwork.toml", &text)), ..Layers::default() };
    let problem = common::run(layers, &set).unwrap_err();
    assert!(problem.message.contains("checkpoints"), "{problem}");
}

/// Recorded failures strike at their times, with their damage and repairs.
#[test]
fn recorded_failures_are_replayed() {
    let text = CLOCKWORK.replace("nodes = 1\n", "nodes = 2\n").replace(
        "first = 'ordinary'\n    lifetime = { model = 'empirical', values = ['9 h'] }",
        "replay = 'failures.csv'",
    );
    // At 9 h the loss of a node, repaired for 2 h; at 15 h the end of a process.
    let records = "seconds,node,damage,repair_seconds\n54000,1,process,\n32400,0,loss,7200\n";
    let layers = Layers { file: Some(("clockwork.toml", &text)), ..Layers::default() };
    let read = |set: &[String]| {
        let document =
            Layers { assignments: set, ..layers }.document("checkpoint", checkpoint::PRESETS)?;
        let files = |name: &str| match name {
            "failures.csv" => Ok(records.to_owned()),
            other => Err(format!("{other}: no such file")),
        };
        checkpoint::read(&document, &files)
    };
    let report = read(&["run.horizon=15.25 h".to_owned()]).unwrap().run(1, &Progress::default());
    // 6 h of work kept; 9.0 to 11.0 repaired, 11.5 booted, 11.75 read; 14.25 a checkpoint; 15.0 ends.
    let hours = [
        ("efficiency", 8.0),
        ("checkpoint_share", 2.0),
        ("lost_share", 1.5 + 0.75),
        ("repair_share", 2.0),
        ("boot_share", 0.5),
        ("restore_share", 0.25 + 0.25),
    ];
    assert_hours(&report, 15.25, &hours);
    assert!((common::derived(&report, "machine_mtbf") - 27_000.0).abs() < 1e-6);
    let problem = read(&["machine.nodes=1".to_owned()]).err().unwrap();
    assert!(problem.message.contains("no node 1 in a machine of 1 nodes"), "{problem}");
    let problem = read(&["failures.replay=other.csv".to_owned()]).err().unwrap();
    assert!(problem.message.contains("other.csv: no such file"), "{problem}");
}
