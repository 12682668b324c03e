//! The published figures: D. Zhao et al., "Exploring reliability of exascale systems through
//! simulations", HPC 2013, and the tables of the same model re-simulated with its units fixed, in one
//! run of five years for each point.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::derived;
use intarsia_simulate::report::Report;
use intarsia_simulate::scenario::Layers;

const MILLION: u32 = 1_048_576;
const RUNS_OF_SMALL_MACHINES: u32 = 100;

fn run(preset: &str, nodes: u32, set: &[&str]) -> Report {
    // Where few failures make much noise, runs cost little, so there are more.
    let is_noisy = preset == "rxsim-none" && nodes <= 262_144;
    let replications = if is_noisy { RUNS_OF_SMALL_MACHINES } else { 4 };
    let mut all =
        vec![format!("machine.nodes={nodes}"), format!("run.replications={replications}")];
    all.extend(set.iter().map(|assignment| (*assignment).to_owned()));
    common::run(Layers { preset: Some(preset), ..Layers::default() }, &all).unwrap()
}

fn percent(preset: &str, nodes: u32, set: &[&str]) -> f64 {
    common::efficiency(&run(preset, nodes, set)).0
}

fn assert_near(name: &str, ours: f64, expected: f64, tolerance: f64) {
    assert!((ours - expected).abs() <= tolerance, "{name}: {ours}, expected {expected}");
}

/// Efficiency of jobs that begin anew after every failure, by renewal theory: each attempt takes
/// M (e^(T/M) − 1) until one succeeds, with e^(R/M) for failures during reboots, and a reboot after
/// the end.
fn without_checkpoints(nodes: u32) -> f64 {
    let mtbf = 1000.0 * 365.0 * 86_400.0 / f64::from(nodes);
    let (work, reboot) = (7.0 * 86_400.0, (0.0254 * f64::from(nodes) + 55.296).ceil());
    100.0 * work / (mtbf * (reboot / mtbf).exp() * (work / mtbf).exp_m1() + reboot)
}

/// Full-machine jobs of seven days: percent with no checkpoints, on the PFS, on the DFS.
const FULL_MACHINE: [(u32, [f64; 3]); 9] = [
    (1_024, [98.5, 98.9, 99.9]),
    (8_192, [91.0, 97.0, 99.7]),
    (65_536, [49.1, 90.9, 99.4]),
    (131_072, [17.6, 81.2, 98.9]),
    (262_144, [2.3, 64.0, 97.9]),
    (409_600, [0.0, 47.1, 96.9]),
    (524_288, [0.0, 34.9, 96.1]),
    (1_048_576, [0.0, 6.1, 92.6]),
    (2_097_152, [0.0, 0.0, 86.3]),
];

#[test]
fn full_machine_jobs_of_a_week_follow_the_table() {
    for (nodes, row) in FULL_MACHINE {
        for (preset, expected) in ["rxsim-none", "rxsim-pfs", "rxsim-dfs"].into_iter().zip(row) {
            let report = run(preset, nodes, &[]);
            let (mean, half_width) = common::efficiency(&report);
            // The table's figure at this point is one draw from a wide distribution: renewal theory
            // gives 21.8 %, so do we, and single runs of five years scatter by more than 2 points.
            if (preset, nodes) == ("rxsim-none", 131_072) {
                let one_run = half_width / 1.98 * f64::from(RUNS_OF_SMALL_MACHINES).sqrt();
                assert!((mean - expected).abs() <= 2.0 * one_run, "{mean} ± {one_run} a run");
            } else {
                assert_near(&format!("{preset}, {nodes} nodes"), mean, expected, 2.0);
            }
            if preset == "rxsim-none" {
                // The horizon cuts the last job off, which the formula does not know.
                let exact = without_checkpoints(nodes);
                assert_near("renewal theory", mean, exact, 2.0 * half_width + 0.1);
            }
        }
    }
}

#[test]
fn jobs_of_a_tenth_of_the_machine_and_of_a_day_follow_the_table() {
    const TENTH: &[&str] = &["workload.size=10 %"];
    const DAY: &[&str] = &["workload.walltime=1 day"];
    for (preset, nodes, workload, expected) in [
        ("rxsim-none", MILLION, TENTH, 27.5),
        ("rxsim-pfs", MILLION, TENTH, 76.4),
        ("rxsim-dfs", MILLION, TENTH, 97.7),
        ("rxsim-dfs", 2 * MILLION, TENTH, 95.7),
        ("rxsim-none", MILLION, DAY, 6.6),
        ("rxsim-pfs", MILLION, DAY, 6.0),
        ("rxsim-dfs", MILLION, DAY, 92.6),
    ] {
        let ours = percent(preset, nodes, workload);
        assert_near(&format!("{preset}, {nodes} nodes, {workload:?}"), ours, expected, 2.0);
    }
}

#[test]
fn the_times_at_a_million_nodes_are_the_published_ones() {
    let report = run("rxsim-pfs", MILLION, &[]);
    assert_near("d", derived(&report, "checkpoint_time_pfs"), 32_000.0, 1e-6);
    assert_near("R", derived(&report, "reboot_time"), 26_690.0, 1e-6);
    assert_near("M", derived(&report, "machine_mtbf"), 30_075.0, 1.0);
    assert_near("OPT", derived(&report, "checkpoint_interval"), 28_274.0, 1.0);
    let report = run("rxsim-dfs", MILLION, &[]);
    assert_near("d", derived(&report, "checkpoint_time_dfs"), 80.0, 1e-6);
    assert_near("OPT", derived(&report, "checkpoint_interval"), 2_117.0, 1.0);
}

/// "Stops functioning beyond 400K nodes".
#[test]
fn without_checkpoints_nothing_is_done_beyond_400_k_nodes() {
    assert!(percent("rxsim-none", 409_600, &[]) < 0.5);
}

/// "Efficiency below 10 %" and "the system MTTF is shorter than one checkpoint cycle".
#[test]
fn a_central_file_system_fails_at_a_million_nodes() {
    let report = run("rxsim-pfs", MILLION, &[]);
    assert!(common::efficiency(&report).0 < 10.0);
    let cycle = derived(&report, "checkpoint_interval") + derived(&report, "checkpoint_time_pfs");
    assert!(derived(&report, "machine_mtbf") < cycle);
}

/// "Up time as high as 90 %" for full-machine jobs, "over 95 %" up to 2 M nodes for a tenth.
#[test]
fn storage_on_the_nodes_keeps_the_machine_useful() {
    assert!(percent("rxsim-dfs", MILLION, &[]) > 90.0);
    for nodes in [1_024, MILLION, 2 * MILLION] {
        assert!(percent("rxsim-dfs", nodes, &["workload.size=10 %"]) > 95.0);
    }
}

/// Jobs of a tenth of the machine: "MTTF about 10 h, checkpoint about 1 h"; the text's 70 % is not
/// what its equations give. With R computed from the machine's node count they give 76 %.
#[test]
fn jobs_of_a_tenth_fail_ten_times_less() {
    // The printed ten hours are those of the machine.
    let report = run("rxsim-pfs", MILLION, &["workload.size=10 %"]);
    assert_near("machine MTBF", derived(&report, "machine_mtbf") / 3600.0, 8.4, 0.1);
    assert_near("checkpoint", derived(&report, "checkpoint_time_pfs") / 3600.0, 0.9, 0.05);
}

/// The published 70 % for jobs of a tenth follow when ten jobs share the central file system, which
/// the equations leave out: an independent simulation of ten jobs with processor sharing gives 72 %.
#[test]
fn sharing_the_file_system_explains_the_published_efficiency_of_small_jobs() {
    let shared = &["workload.size=10 %", "level.pfs.contention=true"];
    assert_near("PFS, shared", percent("rxsim-pfs", MILLION, shared), 72.1, 0.5);
}

/// Jobs of a day: "PFS falls below no-checkpointing".
#[test]
fn for_short_jobs_a_central_file_system_is_worse_than_nothing() {
    let day = &["workload.walltime=1 day"];
    assert!(percent("rxsim-pfs", MILLION, day) < percent("rxsim-none", MILLION, day));
}
