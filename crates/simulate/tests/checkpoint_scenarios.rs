//! The scenarios that come with the program run, and wrong ones are refused with a place and a fix.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::mean;

use intarsia_simulate::checkpoint::{PRESETS, Trace, read};
use intarsia_simulate::progress::Progress;
use intarsia_simulate::report::Report;
use intarsia_simulate::scenario::{Layers, Problem};

const CLUSTER: &str = include_str!("../scenarios/cluster.toml");
const SHORT_JOBS: &str = include_str!("../scenarios/short-jobs.toml");
const SHORT_JOBS_TRACE: &str = include_str!("../scenarios/short-jobs.swf");
const SYNTHETIC_SHORT_JOBS: &str = include_str!("../scenarios/synthetic-short-jobs.toml");

/// Runs a scenario that may name the trace.
fn run(preset: Option<&str>, text: &str, set: &[&str]) -> Result<Report, Problem> {
    let set: Vec<String> = set.iter().map(|field| (*field).to_owned()).collect();
    let layers = Layers { preset, file: Some(("s.toml", text)), assignments: &set };
    let document = layers.document("checkpoint", PRESETS)?;
    let files = |name: &str| match name {
        "short-jobs.swf" => Ok(SHORT_JOBS_TRACE.to_owned()),
        other => Err(format!("{other}: No such file")),
    };
    Ok(read(&document, &files)?.run(2, &Progress::default()))
}

#[test]
fn every_preset_runs() {
    for preset in PRESETS {
        assert!(!preset.summary().is_empty(), "{}", preset.name);
        let layers = Layers { preset: Some(preset.name), ..Layers::default() };
        let set = ["run.replications=2".to_owned(), "run.horizon=60 days".to_owned()];
        let report = common::run(layers, &set).unwrap();
        let efficiency = mean(&report, "efficiency");
        assert!((0.0..=1.0).contains(&efficiency), "{}: {efficiency}", preset.name);
    }
}

/// The example of every section: what each of them adds is in the report.
#[test]
fn the_example_of_every_section_runs() {
    let report = run(None, CLUSTER, &["run.replications=2", "run.horizon=60 days"]).unwrap();
    for name in ["verify_share", "repair_share", "restore_share", "energy", "cost"] {
        assert!(mean(&report, name) > 0.0, "{name}");
    }
    assert!((0.3..0.95).contains(&mean(&report, "efficiency")));
    assert!(mean(&report, "silent_errors_found") > 0.0);
}

/// Every field of every preset and example stands in the page for users.
#[test]
fn the_page_for_users_names_every_field() {
    const PAGE: &str = include_str!("../../../docs/user/simulate-checkpoint.md");
    fn check(value: &toml::Value) {
        match value {
            toml::Value::Table(table) => {
                for (name, value) in table {
                    let is_named = [format!("`{name}`"), format!("{name} = "), format!("[{name}]")];
                    assert!(is_named.iter().any(|form| PAGE.contains(form)), "'{name}' is missing");
                    check(value);
                }
            }
            toml::Value::Array(values) => values.iter().for_each(check),
            _ => {}
        }
    }
    let examples = [CLUSTER, SHORT_JOBS, SYNTHETIC_SHORT_JOBS];
    for text in examples.iter().chain(PRESETS.iter().map(|preset| &preset.text)) {
        let mut table: toml::Table = text.parse().unwrap();
        // Informative fields of a fit are described where fits are made.
        if let Some(failures) = table.get_mut("failures").and_then(toml::Value::as_table_mut) {
            failures.remove("fit");
        }
        check(&toml::Value::Table(table));
    }
    for preset in PRESETS {
        assert!(PAGE.contains(&format!("`{}`", preset.name)), "preset {}", preset.name);
    }
}

/// Extreme values are refused or simulated, but nothing overflows or panics.
#[test]
fn extreme_values_do_no_harm() {
    const FIELDS: &[&str] = &[
        "machine.memory_per_node",
        "machine.reboot",
        "machine.reboot_per_node",
        "machine.reboot_step",
        "failures.lifetime.scale",
        "failures.lifetime.shape",
        "failures.repair.median",
        "failures.repair.sigma",
        "failures.shares.machine",
        "silent.node_mtbe",
        "silent.verification",
        "silent.verifications",
        "level.memory.bandwidth_per_node",
        "level.flash.every",
        "level.flash.group",
        "level.file-system.every",
        "level.file-system.flush.bandwidth",
        "level.file-system.flush.slowdown",
        "checkpoint.interval",
        "workload.size",
        "workload.walltime",
        "workload.walltime.scale",
        "power.compute",
        "prices.per_kwh",
        "run.horizon",
    ];
    const VALUES: &[&str] = &[
        "0",
        "1",
        "-1",
        "65536",
        "4294967296",
        "9223372036854775807",
        "1e-300",
        "1e300",
        "nan",
        "0 s",
        "1 s",
        "1e30 s",
        "-1 s",
        "0 B",
        "1e300 B",
        "1e-300 B/s",
        "1e300 B/s",
        "1e300 W",
        "100 %",
        "1e-9 %",
        "'x'",
        "[]",
        "endless",
        "exact",
        "young",
        "numeric",
        "",
    ];
    let mut refused = 0;
    for field in FIELDS {
        for value in VALUES {
            let set = format!("{field}={value}");
            let fixed = ["run.replications=1", "run.horizon=2 days", &set];
            refused += usize::from(run(None, CLUSTER, &fixed).is_err());
        }
    }
    let all = FIELDS.len() * VALUES.len();
    assert!(refused > all / 2 && refused < all, "{refused} of {all} refused");
}

/// Published: on a trace of short jobs "no-checkpointing beats PFS", "DFS overhead below 5 %", "PFS
/// loses much at 1M nodes".
#[test]
fn short_jobs_gain_nothing_from_checkpoints_on_a_central_file_system() {
    for text in [SHORT_JOBS, SYNTHETIC_SHORT_JOBS] {
        let efficiency = |preset, nodes: &str| {
            let report =
                run(Some(preset), text, &["run.replications=2", "run.horizon=90 days", nodes])
                    .unwrap();
            let overhead = mean(&report, "checkpoint_share") + mean(&report, "lost_share");
            (mean(&report, "efficiency"), overhead)
        };
        let million = "machine.nodes=1048576";
        let (none, pfs) = (efficiency("rxsim-none", million).0, efficiency("rxsim-pfs", million).0);
        assert!(pfs < none + 0.005, "PFS {pfs}, none {none}");
        let (dfs, overhead) = efficiency("rxsim-dfs", million);
        println!("{none} {pfs} {dfs} {overhead}");
        assert!(overhead < 0.05 && dfs > 0.9, "DFS {dfs}, {overhead}");
        let small = efficiency("rxsim-pfs", "machine.nodes=1024").0;
        assert!(pfs < 0.5 * small, "PFS {pfs} at a million nodes, {small} at a thousand");
    }
}

#[test]
fn a_trace_is_replayed_at_its_times() {
    let text = "
        [machine]
        nodes = 40960
        [failures]
        lifetime = { model = 'exponential', mean = '1000000 years' }
        [workload]
        trace = 'short-jobs.swf'
        repeat = false
        [run]
        horizon = '30 days'
        replications = 1
    ";
    let report = run(None, text, &[]).unwrap();
    let trace = Trace::parse("short-jobs.swf", SHORT_JOBS_TRACE).unwrap();
    assert!((mean(&report, "jobs_finished") - trace.jobs.len() as f64).abs() < 1e-9);
    let work: f64 =
        trace.jobs.iter().map(|j| j.run_seconds().unwrap() * j.processors().unwrap()).sum();
    let used = mean(&report, "utilisation") * 40_960.0 * 30.0 * 86_400.0;
    assert!((used / work - 1.0).abs() < 1e-9, "{used} of {work}");
    assert!(report.estimate("wait_time").is_some());
}

#[test]
fn wrong_scenarios_are_refused_with_place_field_and_fix() {
    const RIGHT: &str = "[machine]\nnodes = 16\n[failures]\n\
        lifetime = { model = 'exponential', mean = '1 year' }\n[[level]]\nname = 'pfs'\n\
        kind = 'lower'\nwrite = '60 s'\n[workload]\nwalltime = '1 day'\n[run]\nreplications = 1\n";
    assert!(run(None, RIGHT, &[]).is_ok());
    for (from, to, message, help) in [
        ("nodes = 16", "nods = 16", "s.toml:1:1: machine.nodes: missing", "write nodes"),
        ("nodes = 16", "nodes = 0", "s.toml:2:9: machine.nodes: 0 must be at least 1", ""),
        ("nodes = 16", "nodes = '16'", "s.toml:2:9: machine.nodes: a text instead of", "digits"),
        ("nodes = 16", "nodes = 16\nnode = 1", "s.toml:3:1: machine.node: unknown", "'nodes'?"),
        ("[machine]", "[machin]", "s.toml: machine.nodes: missing", ""),
        ("'1 year'", "'1 yaer'", "s.toml:4:44: failures.lifetime.mean: 'yaer'", "'year'?"),
        ("'1 year'", "3", "s.toml:4:44: failures.lifetime.mean: 3 has no unit", "such as"),
        ("'lower'", "'lowr'", "s.toml:7:8: level[0].kind: 'lowr'", "did you mean 'lower'?"),
        ("write", "wite", "level[0].write: 0 of write, bandwidth, bandwidth_per_node", "give one"),
        ("'60 s'", "'60 s'\nevery = 3", "level: the first level must take every", ""),
        ("'1 day'", "'0 s'", "s.toml:10:12: workload.walltime: 0 s must be at least 1 s", ""),
        ("walltime", "size = 17\nwalltime", "workload.size: 17 is no part of the machine", "16"),
        ("walltime", "size = '0 %'\nwalltime", "workload.size: 0 % is no part", "share"),
        ("walltime", "trace = 'x.swf'\nwalltime", "workload.trace: x.swf: No such file", ""),
        ("[run]", "[run]\nhorizon = '900 years'", "run.horizon: 900 years must be at most", ""),
        ("[run]", "[run]\nconfidence = 1", "run.confidence: 1 must lie between", ""),
        ("[run]", "[checkpoint]\ninterval = 'yuong'\n[run]", "checkpoint.interval:", "young"),
        (
            "walltime = '1 day'",
            "size = [1, 2]\nwalltime = '1 day'\n[checkpoint]\ninterval = 'simulated'",
            "checkpoint: interval = \"simulated\" needs jobs of one size",
            "exact",
        ),
        ("[run]", "[runs]\n[run]", "s.toml:11:2: runs: unknown field", "did you mean 'run'?"),
        ("nodes = 16", "nodes = = 16", "s.toml:2:", ""),
    ] {
        let text = RIGHT.replacen(from, to, 1);
        let problem = run(None, &text, &[]).err().unwrap();
        assert!(problem.message.contains(message), "{to}: {problem}");
        assert!(problem.help.as_deref().unwrap_or_default().contains(help), "{to}: {problem}");
    }
    let problem = run(Some("rxsim"), RIGHT, &[]).err().unwrap();
    assert!(problem.message.contains("no preset 'rxsim'"), "{problem}");
    let problem = run(None, RIGHT, &["machine.nodes"]).err().unwrap();
    assert!(problem.message.contains("no '='"), "{problem}");
    let problem = run(None, &format!("kind = 'scale'\n{RIGHT}"), &[]).err().unwrap();
    assert!(problem.help.unwrap().contains("intarsia simulate scale"));
}
