//! Patterns of verifications and checkpoints, with failures that stop the job and silent errors.

use crate::checkpoint::interval::{Attempt, maximise};

/// What a verified job pays and suffers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerifiedCosts {
    /// C: one checkpoint.
    pub checkpoint_seconds: f64,
    /// V: one verification, which finds every error.
    pub verification_seconds: f64,
    /// R: from a failure until work goes on.
    pub restart_seconds: f64,
    /// From a found error until work goes on; no longer than after a failure.
    pub rollback_seconds: f64,
    /// λf: failures that stop the job.
    pub failures_per_second: f64,
    /// λs: silent errors, per second of work.
    pub silent_errors_per_second: f64,
}

/// Work between two checkpoints, cut into equal pieces with a verification after each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerifiedPattern {
    /// Work between two checkpoints, in seconds.
    pub interval_seconds: f64,
    /// Verifications per checkpoint, at least 1; the last one just before the checkpoint.
    pub verifications: u64,
}

/// Classes of trouble, in the algebra of attempts, mildest first.
const SILENT: usize = 0;
const STOP: usize = 1;

impl VerifiedPattern {
    /// The pattern of first order: n = sqrt(λs / (λs + λf) · C / V) verifications, at least one, and
    /// the interval sqrt((n V + C) / (½ (1 + 1/n) λs + ½ λf)). With n = 1 this is
    /// sqrt((V + C) / (λs + ½ λf)). A. Benoit, A. Cavelan, Y. Robert, H. Sun, "Assessing
    /// general-purpose algorithms to cope with fail-stop and silent errors", ACM Transactions on
    /// Parallel Computing 3(2), 2016.
    pub fn first_order(costs: &VerifiedCosts) -> Self {
        let (silent, stop) = (costs.silent_errors_per_second, costs.failures_per_second);
        let ideal = (silent / (silent + stop) * costs.checkpoint_seconds
            / costs.verification_seconds)
            .sqrt();
        let candidate = |verifications| Self {
            verifications,
            interval_seconds: first_order_interval(costs, verifications),
        };
        let low = candidate(whole(ideal.floor()));
        let high = candidate(low.verifications + 1);
        let better = high.first_order_overhead(costs) < low.first_order_overhead(costs);
        if better { high } else { low }
    }

    fn first_order_overhead(&self, costs: &VerifiedCosts) -> f64 {
        let n = self.verifications as f64;
        let paid = n * costs.verification_seconds + costs.checkpoint_seconds;
        2.0 * paid / self.interval_seconds
    }

    /// The pattern with the best exact efficiency, searched around the first order.
    pub fn optimum(costs: &VerifiedCosts) -> Self {
        let with = |verifications| {
            let around = first_order_interval(costs, verifications);
            let pattern = |interval_seconds| Self { interval_seconds, verifications };
            let found = maximise((around / 1e3, around * 1e3), |w| pattern(w).efficiency(costs));
            (found.value, pattern(found.at))
        };
        let mut best = with(Self::first_order(costs).verifications);
        loop {
            let next = [best.1.verifications + 1, best.1.verifications.max(2) - 1].map(with);
            match next.into_iter().find(|next| next.0 > best.0 * (1.0 + 1e-12)) {
                Some(better) => best = better,
                None => return best.1,
            }
        }
    }

    /// The exact expected time of one interval with its verifications and checkpoint, in seconds.
    ///
    /// A piece runs and is verified; a silent error in it is found then. With one verification this
    /// is the closed form of Benoit et al. 2016, section 3, but for failures during the checkpoint
    /// and the restart, which may strike here.
    pub fn expected_seconds(&self, costs: &VerifiedCosts) -> f64 {
        let rates = [0.0, costs.failures_per_second];
        let piece_seconds = self.interval_seconds / self.verifications as f64;
        let clean = (-costs.silent_errors_per_second * piece_seconds).exp();
        let piece = Attempt::run(piece_seconds + costs.verification_seconds, 0.0, &rates)
            .then(&Attempt::chance(clean, SILENT, 2));
        let rollback = Attempt::run(costs.rollback_seconds, 0.0, &rates);
        let restart = Attempt::run(costs.restart_seconds, 0.0, &rates).restarted(STOP);
        piece
            .repeated(self.verifications)
            .then(&Attempt::run(costs.checkpoint_seconds, 0.0, &rates))
            .retried(SILENT, &rollback)
            .retried(STOP, &restart)
            .cost
            .seconds
    }

    /// Useful work over expected elapsed time; 0 where success is too rare for a floating-point number.
    pub fn efficiency(&self, costs: &VerifiedCosts) -> f64 {
        let share = self.interval_seconds / self.expected_seconds(costs);
        if share.is_nan() { 0.0 } else { share }
    }
}

fn first_order_interval(costs: &VerifiedCosts, verifications: u64) -> f64 {
    let n = verifications as f64;
    let paid = n * costs.verification_seconds + costs.checkpoint_seconds;
    let lost =
        0.5 * (1.0 + 1.0 / n) * costs.silent_errors_per_second + 0.5 * costs.failures_per_second;
    (paid / lost).sqrt()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is within a range that fits"
)]
fn whole(number: f64) -> u64 {
    // Without silent errors and for free verifications the number is not defined: then one.
    if number > 1.0 { number.min(1e6) as u64 } else { 1 }
}

#[cfg(test)]
mod tests {
    use intarsia_des::Streams;
    use rand::RngExt;

    use super::*;
    use crate::checkpoint::interval::Costs;

    fn costs(failures_per_second: f64, silent_errors_per_second: f64) -> VerifiedCosts {
        VerifiedCosts {
            checkpoint_seconds: 60.0,
            verification_seconds: 6.0,
            restart_seconds: 90.0,
            rollback_seconds: 40.0,
            failures_per_second,
            silent_errors_per_second,
        }
    }

    #[test]
    fn without_silent_errors_and_verifications_it_is_the_formula_of_daly() {
        let free = VerifiedCosts { verification_seconds: 0.0, ..costs(1.0 / 3600.0, 0.0) };
        let pattern = VerifiedPattern { interval_seconds: 700.0, verifications: 3 };
        let daly = Costs::new(60.0, 90.0, 3600.0).unwrap().expected_cycle_seconds(700.0);
        assert!((pattern.expected_seconds(&free) / daly - 1.0).abs() < 1e-12);
    }

    /// Closed form for silent errors alone and one verification (Benoit et al. 2016):
    /// e^(λs W) (W + V) + (e^(λs W) − 1) R + C, R being the rollback.
    #[test]
    fn silent_errors_alone_have_a_closed_form() {
        let job = costs(0.0, 1.0 / 5000.0);
        let pattern = VerifiedPattern { interval_seconds: 800.0, verifications: 1 };
        let again = (800.0_f64 / 5000.0).exp();
        let closed = again * 806.0 + (again - 1.0) * 40.0 + 60.0;
        assert!((pattern.expected_seconds(&job) / closed - 1.0).abs() < 1e-12);
    }

    /// For rare errors the exact optimum approaches the first order, whose overhead is
    /// 2 sqrt((n V + C) (½ (1 + 1/n) λs + ½ λf)).
    #[test]
    fn the_first_order_is_the_limit_of_the_exact_optimum() {
        let rare = costs(1e-9, 3e-9);
        let (first, best) = (VerifiedPattern::first_order(&rare), VerifiedPattern::optimum(&rare));
        assert_eq!(first.verifications, best.verifications);
        assert!((first.interval_seconds / best.interval_seconds - 1.0).abs() < 2e-3);
        let overhead = 1.0 / best.efficiency(&rare) - 1.0;
        assert!((overhead / first.first_order_overhead(&rare) - 1.0).abs() < 2e-3);
        let textbook = VerifiedPattern { interval_seconds: 1.0, verifications: 1 };
        let one = first_order_interval(&rare, textbook.verifications);
        assert!((one / (66.0_f64 / (0.5e-9 + 3e-9)).sqrt() - 1.0).abs() < 1e-12);
    }

    /// Oracle: the pattern itself, event by event.
    #[test]
    fn the_expectation_agrees_with_a_simulation() {
        let job = costs(1.0 / 900.0, 1.0 / 700.0);
        let pattern = VerifiedPattern { interval_seconds: 400.0, verifications: 4 };
        let mut rng = Streams::new(8).stream("silent", 0);
        let n = 20_000;
        let times: Vec<f64> = (0..n).map(|_| simulated(&job, pattern, &mut rng)).collect();
        let mean = times.iter().sum::<f64>() / f64::from(n);
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / f64::from(n);
        let four_errors = 4.0 * (variance / f64::from(n)).sqrt();
        let expected = pattern.expected_seconds(&job);
        assert!((expected - mean).abs() < four_errors, "{expected} for {mean} ± {four_errors}");
    }

    fn simulated(job: &VerifiedCosts, pattern: VerifiedPattern, rng: &mut impl rand::Rng) -> f64 {
        let mut elapsed = 0.0;
        let mut exponential = |rate: f64| -(1.0 - rng.random::<f64>()).ln() / rate;
        let piece = pattern.interval_seconds / pattern.verifications as f64;
        let mut done = 0;
        let mut recovery: Option<f64> = None;
        loop {
            let (seconds, is_work) = match (recovery, done == pattern.verifications) {
                (Some(seconds), _) => (seconds, false),
                (None, true) => (job.checkpoint_seconds, false),
                (None, false) => (piece + job.verification_seconds, true),
            };
            let failure = exponential(job.failures_per_second);
            elapsed += failure.min(seconds);
            let corrupt = is_work && exponential(job.silent_errors_per_second) < piece;
            if failure < seconds {
                (recovery, done) = (Some(job.restart_seconds), 0);
            } else if corrupt {
                (recovery, done) = (Some(job.rollback_seconds), 0);
            } else if recovery.is_some() {
                recovery = None;
            } else if done == pattern.verifications {
                return elapsed;
            } else {
                done += 1;
            }
        }
    }
}
