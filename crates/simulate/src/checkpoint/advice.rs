//! What the formulas would choose, beside what the scenario chooses.

use super::energy::energy_optimum;
use super::interval::optimum_under;
use super::level::expectation;
use super::setup::Setup;
use super::silent::{Detection, VerifiedPattern, irrecoverable_share, kept_for};

/// With fewer kept checkpoints, more than one error in a thousand leaves none that is good.
const ACCEPTED_SHARE: f64 = 1e-3;

/// A choice: its name, value and unit.
type Choice = (String, f64, &'static str);

impl Setup {
    /// What is best for jobs on `nodes` that run with `interval_seconds`, where the failures allow an
    /// exact expectation: exponential ones, or any of a whole system on a single level.
    pub(super) fn advice(&self, nodes: u32, interval_seconds: f64) -> Vec<Choice> {
        let mut choices = Vec::new();
        // What a transfer in the background takes and when it is complete is in no exact expectation.
        // Recorded failures follow no law.
        let is_recorded = self.failures.replay.is_some();
        if !is_recorded && !self.scheme(nodes).is_some_and(|scheme| scheme.is_flushed()) {
            choices.extend(self.best_schedule(nodes).unwrap_or_default());
            choices.extend(self.least_energy(nodes));
        }
        choices.extend(self.latent_risk(nodes, interval_seconds).unwrap_or_default());
        choices
    }

    /// The interval, and how often each level is written or the work verified.
    fn best_schedule(&self, nodes: u32) -> Option<Vec<Choice>> {
        let is_exponential = self.failures.lifetime.is_exponential();
        if let Some(costs) = self.verified_costs(nodes).filter(|_| is_exponential) {
            let best = VerifiedPattern::optimum(&costs);
            return Some(vec![
                ("optimal_interval".to_owned(), best.interval_seconds, "s"),
                ("optimal_verifications".to_owned(), best.verifications as f64, "1"),
            ]);
        }
        let scheme = self.scheme(nodes).filter(|_| !self.is_verified())?;
        let gaps = self.failures.system_gaps(nodes).ok().flatten()?;
        if !gaps.is_exponential() {
            let costs = self.costs(nodes).filter(|_| scheme.levels.len() == 1)?;
            let best = optimum_under(&gaps, costs.checkpoint_seconds(), costs.restart_seconds());
            return Some(vec![("optimal_interval".to_owned(), best.at, "s")]);
        }
        let best = expectation::optimum(&self.level_costs(nodes)?);
        let mut choices = vec![("optimal_interval".to_owned(), best.interval_seconds, "s")];
        let mut every = 1;
        for (level, ratio) in scheme.levels.iter().skip(1).zip(&best.ratios) {
            every *= ratio;
            choices.push((format!("optimal_every_{}", level.name), every as f64, "1"));
        }
        Some(choices)
    }

    /// The interval that uses least energy, the levels being written as often as they are.
    fn least_energy(&self, nodes: u32) -> Option<Choice> {
        let watts = self.power.as_ref()?.of_job(nodes);
        let scheme = self.scheme(nodes).filter(|_| !self.is_verified())?;
        let levels = self.level_costs(nodes).filter(|_| self.failures.lifetime.is_exponential())?;
        let least = energy_optimum(&levels, &self.ratios(&scheme), watts);
        Some(("energy_optimal_interval".to_owned(), least.at, "s"))
    }

    /// How often an error that shows late leaves no good checkpoint, and how many to keep.
    fn latent_risk(&self, nodes: u32, interval_seconds: f64) -> Option<Vec<Choice>> {
        let Detection::Latency { latency, kept } = &self.silent.as_ref()?.detection else {
            return None;
        };
        let period = interval_seconds + self.costs(nodes)?.checkpoint_seconds();
        let share = irrecoverable_share(latency, period, *kept);
        let enough = kept_for(latency, period, ACCEPTED_SHARE)?;
        Some(vec![
            ("irrecoverable_share_by_formula".to_owned(), share, "share"),
            ("checkpoints_to_keep".to_owned(), f64::from(enough), "1"),
        ])
    }
}
