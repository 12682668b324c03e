//! What the formulas say about a scenario: the interval of its rule, and the efficiency to expect.

use intarsia_des::Span;

use super::failure::Damage;
use super::interval::{Costs, IntervalRule, maximise};
use super::level::expectation::{FailureClass, LevelCosts, Pattern};
use super::scheme::{Level, Scheme};
use super::setup::Setup;
use super::silent::{VerifiedCosts, VerifiedPattern};

/// An interval is searched for within this factor of Young's.
const REACH: f64 = 1e3;

impl Setup {
    /// C, R and M of a job on `nodes`: C the mean over the pattern of levels, with the work that
    /// transfers in the background take; R the reboot and the reading from the fastest level. None without checkpoints, or when one takes no time.
    pub(super) fn costs(&self, nodes: u32) -> Option<Costs> {
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
        let around = costs.young_seconds();
        let is_nested = self.levels.len() > 1 || self.is_verified();
        let is_searched = matches!(rule, IntervalRule::Exact | IntervalRule::Numeric);
        if is_searched && is_nested && self.formula(nodes, around).is_some() {
            let efficiency = |interval| self.formula(nodes, interval).unwrap_or(0.0);
            return Some(maximise((around / REACH, around * REACH), efficiency).at);
        }
        let gaps = self.failures.system_gaps(nodes).ok().flatten();
        Some(rule.interval_seconds(&costs, gaps.as_ref()))
    }

    /// The efficiency that a long job on `nodes` can expect with `interval_seconds` between its
    /// checkpoints, where an exact formula is known: exponential failures without repair times, and
    /// either several levels or verifications.
    pub(super) fn expected_efficiency(&self, nodes: u32, interval_seconds: f64) -> Option<f64> {
        let is_covered = self.failures.lifetime.is_exponential()
            && self.failures.replay.is_none()
            && self.failures.repair.is_none()
            && self.failures.bursts.is_none()
            && !self.is_contended()
            // The formula for verified work knows one kind of failure.
            && (self.silent.is_none() || (self.is_verified() && self.failures.shares.process == 0.0))
            && self.levels.iter().all(|level| !level.is_flushed());
        if is_covered { self.formula(nodes, interval_seconds) } else { None }
    }

    /// The formula itself, an approximation where it is not exact.
    fn formula(&self, nodes: u32, interval_seconds: f64) -> Option<f64> {
        let scheme = self.scheme(nodes)?;
        if self.is_verified() {
            let (verifications, _) = self.verifications();
            let pattern = VerifiedPattern { interval_seconds, verifications };
            return Some(pattern.efficiency(&self.verified_costs(nodes)?));
        }
        let ratios = self.ratios(&scheme);
        Some(Pattern { interval_seconds, ratios }.efficiency(&self.level_costs(nodes)?))
    }

    /// What a verified job on `nodes` pays; none without verifications or with several levels.
    pub(super) fn verified_costs(&self, nodes: u32) -> Option<VerifiedCosts> {
        let silent = self.silent.as_ref().filter(|_| self.is_verified())?;
        let scheme = self.scheme(nodes)?;
        let level = scheme.levels.first().filter(|_| scheme.levels.len() == 1)?;
        let (_, verification_seconds) = self.verifications();
        Some(VerifiedCosts {
            checkpoint_seconds: level.cost().as_secs_f64(),
            verification_seconds,
            restart_seconds: (level.restore + self.machine.reboot).as_secs_f64(),
            rollback_seconds: level.restore.as_secs_f64(),
            failures_per_second: 1.0 / self.failures.mtbf_seconds(nodes),
            silent_errors_per_second: silent.per_second(nodes),
        })
    }

    /// How many checkpoints of each level but the last one of the next level ends.
    pub(super) fn ratios(&self, scheme: &Scheme) -> Vec<u64> {
        scheme.levels.windows(2).map(|pair| pair[1].every / pair[0].every.max(1)).collect()
    }

    /// What the levels cost a job on `nodes` and which failures each is there for; none when no level
    /// survives some failures.
    pub(super) fn level_costs(&self, nodes: u32) -> Option<Vec<LevelCosts>> {
        let scheme = self.scheme(nodes)?;
        let failures = self.failures_per_level(&scheme, nodes)?;
        let costs = scheme.levels.iter().zip(failures).map(|(level, failures)| LevelCosts {
            write_seconds: level.cost().as_secs_f64(),
            failures,
        });
        Some(costs.collect())
    }

    /// The failures that each level survives and the level below it does not, mildest first; none
    /// when no level survives some failures.
    fn failures_per_level(&self, scheme: &Scheme, nodes: u32) -> Option<Vec<Vec<FailureClass>>> {
        let shares = self.failures.shares;
        let rate = 1.0 / self.failures.mtbf_seconds(nodes);
        // Any failure of the machine hits every job, however small.
        let machine_rate = shares.machine / self.failures.mtbf_seconds(self.machine.nodes);
        let loss = 1.0 - shares.process - shares.reboot - shares.machine;
        let mut failures = vec![Vec::new(); scheme.levels.len()];
        for (damage, per_second) in [
            (Damage::Process, rate * shares.process),
            (Damage::Reboot, rate * shares.reboot),
            (Damage::Loss, rate * loss),
            (Damage::Machine, machine_rate),
        ] {
            if per_second > 0.0 {
                let survives = |level: &Level| level.kind.survives(damage, &[0], nodes);
                let index = scheme.levels.iter().position(survives)?;
                let reboot =
                    if damage == Damage::Process { Span::ZERO } else { self.machine.reboot };
                let restart_seconds = (scheme.levels[index].restore + reboot).as_secs_f64();
                failures[index].push(FailureClass { per_second, restart_seconds });
            }
        }
        Some(failures)
    }
}
