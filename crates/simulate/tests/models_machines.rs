//! Today's machines: what their presets give, against what is published of them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use intarsia_simulate::checkpoint;
use intarsia_simulate::progress::Progress;
use intarsia_simulate::report::Report;
use intarsia_simulate::scenario::{Document, Preset, TIME, Value};

fn preset(name: &str) -> &'static str {
    Preset::find(checkpoint::PRESETS, name).unwrap().text
}

fn run(text: &str, changes: &[&str]) -> Report {
    let mut document = Document::parse("preset", text).unwrap();
    for change in changes {
        document.set(change).unwrap();
    }
    let no_files = |_: &str| Err("no files here".to_owned());
    checkpoint::read(&document, &no_files).unwrap().run(1, &Progress::default())
}

fn efficiency(report: &Report) -> (f64, f64) {
    let estimate = report.estimate("efficiency").unwrap();
    (estimate.mean, estimate.half_width.unwrap())
}

fn derived(report: &Report, name: &str) -> f64 {
    report.derived.iter().find(|(found, _)| found == name).unwrap().1.value
}

/// arXiv:2407.21783, section 3.3.4: "higher than 90 % effective training time".
#[test]
fn the_training_run_reaches_the_published_effective_time() {
    let report = run(preset("llama-3"), &["run.replications=6"]);
    let (share, half_width) = efficiency(&report);
    println!("Llama 3: {share:.3} ± {half_width:.3}, published above 0.90");
    assert!(share - half_width > 0.90 && share < 0.97, "{share}");
    let mtbf_hours = derived(&report, "job_mtbf") / 3600.0;
    assert!((mtbf_hours - 54.0 * 24.0 / 419.0).abs() < 0.01, "{mtbf_hours} h");
}

/// An independent maximum-likelihood fit (scipy) of the same gaps: shape and scale in hours, within
/// 2 %.
#[test]
fn the_fits_to_the_records_agree_with_an_independent_one() {
    for (name, shape, scale_hours, mean_gap_hours) in
        [("lanl-2", 0.74, 11.5, 14.0), ("lanl-18", 0.82, 6.6, 7.5), ("lanl-20", 0.65, 9.6, 13.6)]
    {
        let document = Document::parse(name, preset(name)).unwrap();
        let lifetime = document.peek("failures.lifetime.shape").cloned();
        let Some(Value::Number(fitted)) = lifetime else { panic!("{name}: {lifetime:?}") };
        assert!((fitted / shape - 1.0).abs() < 0.02, "{name}: {fitted}");
        let scale = document.peek("failures.lifetime.scale").unwrap();
        let scale = TIME.read(scale).unwrap() / 3600.0;
        assert!((scale / scale_hours - 1.0).abs() < 0.02, "{name}: {scale} h");
        let report = run(preset(name), &["run.replications=2", "run.horizon=200 days"]);
        let mtbf = derived(&report, "machine_mtbf") / 3600.0;
        assert!((mtbf / mean_gap_hours - 1.0).abs() < 0.05, "{name}: {mtbf} h");
        let share = efficiency(&report).0;
        println!("{name}: MTBF {mtbf:.2} h, efficiency {share:.3}");
        assert!((0.2..1.0).contains(&share), "{name}: {share}");
    }
}

/// The records of system 20 hold 2,478 failures in 1,359 days. The process of the whole system gives
/// the same number; nodes that are all alike and new at the start come near to it.
#[test]
fn simulated_failures_are_as_many_as_the_records_hold() {
    for (name, tolerance) in [("lanl-20", 0.04), ("lanl-20-nodes", 0.15)] {
        let changes = ["run.replications=4", "run.horizon=1359 days", "checkpoint.interval=1 h"];
        let counted = run(preset(name), &changes).estimate("failures").unwrap().mean;
        println!("{name}: {counted} failures for 2478 recorded");
        assert!((counted / 2478.0 - 1.0).abs() < tolerance, "{name}: {counted}");
    }
}

/// Every preset runs, and its efficiency is neither hopeless nor perfect at the assumed failures.
#[test]
fn the_exascale_machines_lose_something_but_not_all() {
    for name in ["frontier", "el-capitan", "aurora", "measured-store"] {
        let report = run(preset(name), &["run.replications=3", "run.horizon=60 days"]);
        let (share, half_width) = efficiency(&report);
        println!("{name}: {share:.3} ± {half_width:.3}");
        assert!((0.6..0.99).contains(&share), "{name}: {share}");
    }
}

/// The conclusion of 2013, node-local storage against a central file system, on a machine of today:
/// local XOR groups beat checkpoints that all go to Orion.
#[test]
fn node_local_checkpoints_pay_on_a_machine_of_today() {
    let changes = ["run.replications=4", "run.horizon=90 days"];
    let both = run(preset("frontier"), &changes);
    let xor = "kind = \"xor\"\ngroup = 16\n";
    assert!(preset("frontier").contains(xor));
    let central = preset("frontier").replace(xor, "kind = \"lower\"\n");
    let central = run(&central, &[&changes[..], &["level.orion.every=1"]].concat());
    let (both, central) = (efficiency(&both), efficiency(&central));
    println!("Frontier: levels {both:?}, Orion alone {central:?}");
    assert!(both.0 - both.1 > central.0 + central.1);
}

/// Around the optimum the efficiency is flat: a search by simulation need not find the interval of the
/// formula, but one as good.
#[test]
fn the_interval_found_by_simulation_is_as_good_as_the_exact_one() {
    let changes = ["run.replications=6", "run.horizon=60 days"];
    let exact = run(preset("llama-3"), &changes);
    let tuned = [&changes[..], &["checkpoint.interval=simulated"]].concat();
    let simulated = run(preset("llama-3"), &tuned);
    let (exact_share, half_width) = efficiency(&exact);
    let share = efficiency(&simulated).0;
    let intervals = [&exact, &simulated].map(|report| derived(report, "checkpoint_interval"));
    println!(
        "exact {exact_share:.4} at {:.0} s, simulated {share:.4} at {:.0} s",
        intervals[0], intervals[1]
    );
    assert!(share > exact_share - half_width - 0.002, "{share} {exact_share}");
    assert!((0.4..2.5).contains(&(intervals[1] / intervals[0])), "{intervals:?}");
}

/// What the formulas advise for a machine, run: better than the neighbours on either side.
#[test]
fn the_advised_schedule_beats_its_neighbours() {
    let report = run(preset("frontier"), &["run.replications=1", "run.horizon=1 day"]);
    let every = derived(&report, "optimal_every_orion");
    let share = |every: f64| {
        let every = format!("level.orion.every={}", every.round());
        efficiency(&run(preset("frontier"), &["run.replications=8", "run.horizon=2 years", &every]))
            .0
    };
    let (fewer, best, more) = (share(every / 6.0), share(every), share(every * 6.0));
    println!("every {every}: {best:.4}; a sixth {fewer:.4}, six times {more:.4}");
    assert!(best > fewer && best > more);
    let energy = derived(&report, "energy_optimal_interval");
    let interval = derived(&report, "checkpoint_interval");
    assert!((energy / interval - 1.0).abs() < 1e-3, "one power for all: {energy} {interval}");
}

/// The simulator against the exact expectation, for endless jobs: levels, failures of all kinds,
/// verified work. Intervals of 99.9 %.
#[test]
fn the_machines_agree_with_their_exact_expectation() {
    let verified =
        ["silent.node_mtbe=50 years", "silent.verification=4 s", "failures.shares.process=0"];
    let cases: [(&str, &[&str]); 6] = [
        ("frontier", &[]),
        ("el-capitan", &[]),
        ("aurora", &[]),
        ("llama-3", &[]),
        ("llama-3", &verified),
        ("measured-store", &[]),
    ];
    let long = ["workload.walltime=endless", "run.horizon=2 years", "run.replications=10"];
    for (name, changes) in cases {
        let changes = [changes, &long, &["run.confidence=0.999"]].concat();
        let report = run(preset(name), &changes);
        let (share, half_width) = efficiency(&report);
        let expected = derived(&report, "efficiency_by_formula");
        println!("{name}: {share:.4} ± {half_width:.4}, expected {expected:.4}");
        assert!((share - expected).abs() < half_width, "{name}: {share} for {expected}");
    }
}
