//! The order in which jobs start: first come, first served, or with backfilling.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{mean, study};
use intarsia_simulate::progress::Progress;
use intarsia_simulate::report::Report;
use proptest::prelude::*;

const MACHINE: &str = "
    [machine]
    nodes = 5
    [failures]
    lifetime = { model = 'exponential', mean = '100000 years' }
    [workload]
    trace = 'jobs.swf'
    repeat = false
    [run]
    horizon = '60 days'
    replications = 1
";

/// Nodes, hours of work and requested hours of jobs that come one second after the other.
fn trace(jobs: &[(u32, f64, f64)]) -> String {
    let line = |(second, (nodes, work, requested)): (usize, &(u32, f64, f64))| {
        let (work, requested) = (work * 3600.0, requested * 3600.0);
        format!("1 {second} -1 {work} {nodes} -1 -1 {nodes} {requested} -1 1 1 1 -1 1 -1 -1 -1\n")
    };
    let lines: String = jobs.iter().enumerate().map(line).collect();
    format!("; MaxProcs: 5\n{lines}")
}

fn run(text: &str, trace: &str, set: &[&str]) -> Report {
    study(text, trace, set).unwrap().run(1, &Progress::default())
}

/// When each job starts, in seconds, in the order of arrival.
fn starts(trace: &str, set: &[&str]) -> Vec<f64> {
    let finished = study(MACHINE, trace, set).unwrap().jobs().unwrap();
    let lines = finished.lines().filter(|line| !line.starts_with(';'));
    let start = |line: &str| {
        let fields: Vec<f64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
        (fields[1] + fields[2]).round()
    };
    lines.map(start).collect()
}

/// Five nodes; a, the first job, takes two of them for ten hours, b needs four.
///
/// ```text
///  0.0  a runs on 2 nodes; b has a reservation at 10 h, when one node is extra
///       c, 2 nodes for 5 h, ends before that: it starts
///       d, 1 node for 20 h, uses the extra node: it starts
///  5.0  c ends; e, 1 node for 20 h, would take a node that b needs: it waits
/// 10.0  a ends; b starts
/// 12.0  b ends; e starts
/// ```
#[test]
fn jobs_overtake_without_delaying_the_first() {
    let jobs = [(2, 10.0, 10.0), (4, 2.0, 2.0), (2, 5.0, 5.0), (1, 20.0, 20.0), (1, 20.0, 20.0)];
    let h = 3600.0;
    let easy = "workload.scheduler=easy";
    let backfilled = [0.0, 10.0 * h, 2.0, 3.0, 12.0 * h];
    assert_eq!(starts(&trace(&jobs), &[easy]), backfilled);
    let report = run(MACHINE, &trace(&jobs), &[easy]);
    assert_eq!(mean(&report, "jobs_backfilled"), 2.0);
    assert_eq!(mean(&report, "reservations_missed"), 0.0);
    // First come, first served, which is the default: c, d and e wait for b.
    let in_order = [0.0, 10.0 * h, 12.0 * h, 12.0 * h, 12.0 * h];
    assert_eq!(starts(&trace(&jobs), &[]), in_order);
    assert_eq!(starts(&trace(&jobs), &["workload.scheduler=fcfs"]), in_order);
    assert!(run(MACHINE, &trace(&jobs), &[]).estimate("jobs_backfilled").is_none());
    // Only the job behind the first one is looked at. When c has gone, that is d.
    let one = starts(&trace(&jobs), &[easy, "workload.backfill_depth=1"]);
    assert_eq!(one, backfilled);
}

/// Estimates decide, not what jobs really take.
#[test]
fn estimates_decide_who_overtakes() {
    let h = 3600.0;
    let easy = "workload.scheduler=easy";
    // c asks for more than there is before the reservation of b, and so waits.
    let cautious = trace(&[(2, 10.0, 10.0), (4, 2.0, 2.0), (2, 5.0, 12.0)]);
    assert_eq!(starts(&cautious, &[easy]), [0.0, 10.0 * h, 12.0 * h]);
    let exact = [easy, "workload.estimate_factor=1"];
    assert_eq!(starts(&cautious, &exact), [0.0, 10.0 * h, 2.0]);
    // c takes twice as long as it says: b, promised a start at 10 h, starts at 12 h.
    let optimist = trace(&[(2, 10.0, 10.0), (4, 2.0, 2.0), (2, 12.0 - 2.0 / h, 6.0)]);
    assert_eq!(starts(&optimist, &[easy]), [0.0, 12.0 * h, 2.0]);
    assert_eq!(mean(&run(MACHINE, &optimist, &[easy]), "reservations_missed"), 1.0);
}

/// Where there is always a next job, small ones fill what the first one leaves idle.
#[test]
fn backfilling_uses_idle_nodes() {
    let text = "
        [machine]
        nodes = 100
        reboot = '2 min'
        [failures]
        lifetime = { model = 'exponential', mean = '5 years' }
        [[level]]
        name = 'pfs'
        kind = 'lower'
        write = '3 min'
        [workload]
        size = ['60 %', '30 %', 5]
        walltime = { model = 'exponential', mean = '5 h' }
        [run]
        horizon = '200 days'
        replications = 2
    ";
    let fcfs = run(text, "", &[]);
    let easy = run(text, "", &["workload.scheduler=easy", "workload.backfill_depth=20"]);
    let (before, after) = (mean(&fcfs, "utilisation"), mean(&easy, "utilisation"));
    assert!(after > before + 0.05, "{before} {after}");
    assert!(mean(&easy, "jobs_backfilled") > 100.0);
}

#[test]
fn wrong_schedulers_are_refused() {
    for (set, message, help) in [
        (vec!["workload.scheduler=easi"], "workload.scheduler: 'easi' is none of", "'easy'?"),
        (vec!["workload.backfill_depth=5"], "backfill_depth: has no meaning", "easy"),
        (vec!["workload.estimate_factor=2"], "estimate_factor: has no meaning", "easy"),
        (vec!["workload.scheduler=easy", "workload.backfill_depth=0"], "0 must be at least 1", ""),
        (vec!["workload.scheduler=easy", "workload.estimate_factor=0"], "estimate_factor: 0", ""),
    ] {
        let problem = study(MACHINE, &trace(&[(1, 1.0, 1.0)]), &set).err().unwrap();
        assert!(problem.message.contains(message), "{set:?}: {problem}");
        assert!(problem.help.as_deref().unwrap_or_default().contains(help), "{set:?}: {problem}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// While no job overruns its estimate, the first job never starts later than it was promised, and
    /// every job runs at last.
    #[test]
    fn the_first_job_starts_when_it_was_promised(
        jobs in prop::collection::vec((1u32..6, 0.1..20.0f64, 1.0..4.0f64), 2..40),
        depth in 1u64..50,
    ) {
        let jobs: Vec<_> = jobs.iter().map(|(nodes, h, slack)| (*nodes, *h, h * slack)).collect();
        let set = ["workload.scheduler=easy", &format!("workload.backfill_depth={depth}")];
        let report = run(MACHINE, &trace(&jobs), &set);
        prop_assert_eq!(mean(&report, "reservations_missed"), 0.0);
        prop_assert_eq!(mean(&report, "jobs_finished"), jobs.len() as f64);
    }
}
