//! What the formulas say about a scenario: the interval of its rule, and the efficiency to expect.

use intarsia_des::Span;

use super::failure::Damage;
use super::interval::{Costs, IntervalRule, maximise};
use super::level::expectation::{LevelCosts, Pattern};
use super::scheme::Scheme;
use super::setup::Setup;
use super::silent::{VerifiedCosts, VerifiedPattern};

/// An interval is searched for within this factor of Young's.
const REACH: f64 = 1e3;

impl Setup {
    /// C, R and M of a job on `nodes`: C the mean over the pattern of levels, R the reboot and the
    /// reading from the fastest level. None without checkpoints, or when one takes no time.
    fn costs(&self, nodes: u32) -> Option<Costs> {
        let scheme = self.scheme(nodes)?;
        let (count, total) =
            scheme.costs().fold((0.0, 0.0), |(n, sum), cost| (n + 1.0, sum + cost.as_secs_f64()));
        let restore = scheme.levels.first()?.restore + self.machine.reboot;
        let mtbf = self.failures.mtbf_seconds(nodes);
        Costs::new(total / count, restore.as_secs_f64(), mtbf).ok()
    }

    /// Work between two checkpoints of a job on `nodes`, in seconds; none without checkpoints.
    pub(super) fn interval(&self, nodes: u32) -> Option<f64> {
        let rule = self.rule.as_ref()?;
        if let IntervalRule::Fixed(seconds) = rule {
            return Some(*seconds);
        }
        // Checkpoints that cost nothing are written all the time; once a second is enough.
        let Some(costs) = self.costs(nodes) else { return Some(1.0) };
        if *rule == IntervalRule::Exact && (self.levels.len() > 1 || self.is_verified()) {
            let around = costs.young_seconds();
            let efficiency = |interval| self.formula(nodes, interval).unwrap_or(0.0);
            return Some(maximise((around / REACH, around * REACH), efficiency).at);
        }
        let gaps = self.failures.system_gaps(nodes).ok().flatten();
        Some(rule.interval_seconds(&costs, gaps.as_ref()))
    }

    /// The efficiency that a long job on `nodes` can expect with `interval_seconds` between its
    /// checkpoints, where an exact formula is known: exponential failures without repair times that
    /// all need a reboot, and either several levels or verifications.
    pub(super) fn expected_efficiency(&self, nodes: u32, interval_seconds: f64) -> Option<f64> {
        let shares = self.failures.shares;
        let is_covered = self.failures.lifetime.is_exponential()
            && self.failures.repair.is_none()
            && self.failures.bursts.is_none()
            && shares.process == 0.0
            && (self.silent.is_none() || self.is_verified())
            // Without a reboot after a found error, the formula's one restart time fits only then.
            && (self.silent.is_none() || self.machine.reboot == Span::ZERO)
            && self.levels.iter().all(|level| !level.is_flushed());
        if is_covered { self.formula(nodes, interval_seconds) } else { None }
    }

    /// The formula itself, an approximation where it is not exact.
    fn formula(&self, nodes: u32, interval_seconds: f64) -> Option<f64> {
        let scheme = self.scheme(nodes)?;
        let reboot = self.machine.reboot.as_secs_f64();
        if let Some(silent) = self.silent.as_ref().filter(|_| self.is_verified()) {
            let (verifications, verification_seconds) = self.verifications();
            let level = scheme.levels.first().filter(|_| scheme.levels.len() == 1)?;
            let costs = VerifiedCosts {
                checkpoint_seconds: level.write.as_secs_f64(),
                verification_seconds,
                restart_seconds: level.restore.as_secs_f64() + reboot,
                failures_per_second: 1.0 / self.failures.mtbf_seconds(nodes),
                silent_errors_per_second: silent.per_second(nodes),
            };
            return Some(VerifiedPattern { interval_seconds, verifications }.efficiency(&costs));
        }
        let ratios = scheme.levels.windows(2).map(|pair| pair[1].every / pair[0].every.max(1));
        let pattern = Pattern { interval_seconds, ratios: ratios.collect() };
        let rates = self.failures_per_level(&scheme, nodes)?;
        let levels: Vec<LevelCosts> = scheme
            .levels
            .iter()
            .zip(rates)
            .map(|(level, failures_per_second)| LevelCosts {
                write_seconds: level.write.as_secs_f64(),
                restore_seconds: level.restore.as_secs_f64() + reboot,
                failures_per_second,
            })
            .collect();
        Some(pattern.efficiency(&levels))
    }

    /// Failures per second that each level survives and the level below it does not; none when no
    /// level survives some failures.
    fn failures_per_level(&self, scheme: &Scheme, nodes: u32) -> Option<Vec<f64>> {
        let shares = self.failures.shares;
        let rate = 1.0 / self.failures.mtbf_seconds(nodes);
        // Any failure of the machine hits every job, however small.
        let machine_rate = shares.machine / self.failures.mtbf_seconds(self.machine.nodes);
        let loss = 1.0 - shares.process - shares.reboot - shares.machine;
        let mut rates = vec![0.0; scheme.levels.len()];
        for (damage, rate) in [
            (Damage::Process, rate * shares.process),
            (Damage::Reboot, rate * shares.reboot),
            (Damage::Loss, rate * loss),
            (Damage::Machine, machine_rate),
        ] {
            if rate > 0.0 {
                let survives = |kind: super::level::Kind| kind.survives(damage, &[0], nodes);
                let level = scheme.levels.iter().position(|level| survives(level.kind))?;
                rates[level] += rate;
            }
        }
        Some(rates)
    }
}
