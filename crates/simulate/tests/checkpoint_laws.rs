//! What must hold for every scenario: time is conserved, results are the same for the same seed.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use intarsia_simulate::scenario::Layers;
use proptest::prelude::*;

/// A machine of a few nodes on which everything happens often.
fn busy(nodes: u32, mtbf_hours: f64, shape: f64, size: &str, extra: &str) -> String {
    format!(
        "[machine]\nnodes = {nodes}\nmemory_per_node = '1 GB'\nreboot = '3 min'\n\
         [failures]\nscope = 'node'\nfirst = 'ordinary'\n\
         lifetime = {{ model = 'weibull', shape = {shape}, mean = '{mtbf_hours} h' }}\n\
         repair = {{ model = 'exponential', mean = '20 min' }}\n\
         bursts = {{ sizes = [[1, 0.7], [3, 0.3]] }}\n\
         shares = {{ process = 0.3, reboot = 0.3, machine = 0.05 }}\n\
         {extra}\n\
         [workload]\nsize = {size}\nwalltime = {{ model = 'gamma', shape = 2, scale = '1 h' }}\n\
         [run]\nhorizon = '20 days'\nreplications = 2\n"
    )
}

const LEVELS: &str = "
[silent]
node_mtbe = '10 days'
verification = '20 s'
verifications = 2
[[level]]
name = 'ram'
kind = 'memory'
write = '5 s'
[[level]]
name = 'xor'
kind = 'xor'
group = 4
every = 2
write = '30 s'
[[level]]
name = 'pfs'
kind = 'lower'
every = 6
bandwidth = '100 MB/s'
flush = { time = '10 min', slowdown = '10 %' }
[checkpoint]
interval = '10 min'
[power]
compute = '500 W'
idle = '100 W'
[prices]
per_kwh = 0.2
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Shares of the settled time add up to one, whatever happens. (Node-time is conserved exactly;
    /// a test within the crate holds that.)
    #[test]
    fn shares_add_up(
        nodes in 1u32..40, mtbf_hours in 5.0..500.0f64, shape in 0.5..2.0f64, seed in 0u64..1000,
        is_checkpointed in any::<bool>(),
    ) {
        let extra = if is_checkpointed { LEVELS } else { "" };
        let text = busy(nodes, mtbf_hours, shape, "['100 %', '30 %', 1]", extra);
        let layers = Layers { file: Some(("busy.toml", &text)), ..Layers::default() };
        let report = common::run(layers, &[format!("run.seed={seed}")]).unwrap();
        let sum: f64 = report
            .estimates
            .iter()
            .filter(|(name, _)| name == "efficiency" || name.ends_with("_share") && name != "useful_energy_share")
            .map(|(_, estimate)| estimate.mean)
            .sum();
        prop_assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        for (name, estimate) in &report.estimates {
            prop_assert!(estimate.mean.is_finite() && estimate.mean >= 0.0, "{name}: {estimate:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_report_on_any_number_of_threads() {
    let text = busy(30, 40.0, 0.7, "['50 %', 2]", LEVELS);
    let run = |seed: u64| {
        let layers = Layers { file: Some(("busy.toml", &text)), ..Layers::default() };
        let set = [format!("run.seed={seed}"), "run.replications=5".to_owned()];
        common::run(layers, &set).unwrap()
    };
    let json = |seed| serde_json::to_string(&run(seed)).unwrap();
    assert_eq!(json(7), json(7));
    assert_ne!(json(7), json(8));
    let layers = Layers { file: Some(("busy.toml", &text)), ..Layers::default() };
    let alone =
        common::run_on(1, layers, &["run.seed=7".into(), "run.replications=5".into()]).unwrap();
    assert_eq!(serde_json::to_string(&alone).unwrap(), json(7));
}

#[test]
fn the_effective_scenario_is_a_scenario_with_the_same_result() {
    let text = busy(30, 40.0, 0.7, "['50 %', 2]", LEVELS);
    let layers = Layers { file: Some(("busy.toml", &text)), ..Layers::default() };
    let first = common::run(layers, &[]).unwrap();
    let effective = toml::to_string(&first.scenario).unwrap();
    let layers = Layers { file: Some(("effective.toml", &effective)), ..Layers::default() };
    let second = common::run(layers, &[]).unwrap();
    assert_eq!(first.estimates, second.estimates);
    assert_eq!(first.scenario, second.scenario);
}
