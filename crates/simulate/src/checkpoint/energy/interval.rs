//! The interval that uses least energy, next to the one that takes least time.

use crate::checkpoint::interval::{Costs, Optimum, maximise};
use crate::checkpoint::level::expectation::{LevelCosts, Pattern, Watts, rough_interval_seconds};

/// The search looks this far around Young's interval for the first level and all failures.
const REACH: f64 = 1e3;

/// Expected energy per second of useful work, in joules, for exponential failures: exact.
pub fn joules_per_work_second(levels: &[LevelCosts], pattern: &Pattern, watts: Watts) -> f64 {
    pattern.expected(levels, watts).joules / pattern.work_seconds()
}

/// The interval that uses least energy when each level but the first is written as often as `ratios`
/// say (see [`Pattern`]); the value is the energy per second of work, in joules.
pub fn energy_optimum(levels: &[LevelCosts], ratios: &[u64], watts: Watts) -> Optimum {
    let around = rough_interval_seconds(levels);
    let found = maximise((around / REACH, around * REACH), |interval_seconds| {
        let pattern = Pattern { interval_seconds, ratios: ratios.to_vec() };
        -joules_per_work_second(levels, &pattern, watts)
    });
    Optimum { at: found.at, value: -found.value }
}

/// sqrt(2 C M · Pw / Pc): Young's interval, stretched where a second of checkpoint draws Pw watts
/// and a second of lost work Pc. The first order of G. Aupy, A. Benoit, T. Hérault, Y. Robert,
/// J. Dongarra, "Optimal checkpointing period: time vs. energy", PMBS 2013, for checkpoints that
/// block the application. Where a checkpoint draws nothing, Young's interval.
pub fn energy_first_order_seconds(costs: &Costs, watts: Watts) -> f64 {
    let ratio = watts.write / watts.work;
    let stretch = if ratio > 0.0 && ratio.is_finite() { ratio.sqrt() } else { 1.0 };
    costs.young_seconds() * stretch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::level::expectation::FailureClass;

    const WATTS: Watts = Watts { work: 700.0, write: 250.0, restore: 180.0 };

    fn level(costs: &Costs) -> [LevelCosts; 1] {
        [LevelCosts {
            write_seconds: costs.checkpoint_seconds(),
            failures: vec![FailureClass {
                per_second: 1.0 / costs.mtbf_seconds(),
                restart_seconds: costs.restart_seconds(),
            }],
        }]
    }

    /// Independent closed form, by what a failure interrupts: expected time at work, in the
    /// checkpoint and in restarts, each at its power.
    #[test]
    fn agrees_with_the_closed_form() {
        let (c, r, m, tau) = (300.0_f64, 200.0_f64, 3600.0_f64, 1500.0_f64);
        let costs = Costs::new(c, r, m).unwrap();
        let tries = ((tau + c) / m).exp();
        let work = m * (1.0 - (-tau / m).exp());
        let write = m * ((-tau / m).exp() - (-(tau + c) / m).exp());
        let restarts = (tries - 1.0) * m * ((r / m).exp() - 1.0);
        let closed = tries * (work * 700.0 + write * 250.0) + restarts * 180.0;
        let pattern = Pattern { interval_seconds: tau, ratios: vec![] };
        let ours = joules_per_work_second(&level(&costs), &pattern, WATTS) * tau;
        assert!((ours / closed - 1.0).abs() < 1e-12, "{ours} {closed}");
    }

    #[test]
    fn equal_power_makes_both_optima_one() {
        let costs = Costs::new(300.0, 200.0, 3600.0).unwrap();
        let same = Watts { work: 9.0, write: 9.0, restore: 9.0 };
        let least = energy_optimum(&level(&costs), &[], same);
        assert!((least.at / costs.exact_seconds() - 1.0).abs() < 1e-5);
        assert!((9.0 / least.value / costs.efficiency(least.at) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn rare_failures_approach_the_first_order() {
        let costs = Costs::new(1.0, 1.0, 1e8).unwrap();
        let least = energy_optimum(&level(&costs), &[], WATTS);
        let first = energy_first_order_seconds(&costs, WATTS);
        assert!((least.at / first - 1.0).abs() < 1e-3, "{} {first}", least.at);
        assert!(least.at < costs.exact_seconds(), "cheap checkpoints are taken more often");
    }
}
