//! Expected cost of work that failures interrupt, built up from pieces.
//!
//! An [`Attempt`] runs until it succeeds or until a failure aborts it; failures come in classes of
//! growing severity. Pieces are joined in sequence and retried after a recovery, which yields the
//! exact expectation of any nested checkpoint scheme under exponential failures without a system of
//! equations: what a Markov model such as Moody et al., "Design, modeling, and evaluation of a
//! scalable multi-level checkpointing system", SC 2010, solves as a whole.

use std::ops::{Add, Mul};

/// An expected cost: time and energy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Elapsed time, in seconds.
    pub seconds: f64,
    /// Energy, in joules.
    pub joules: f64,
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { seconds: self.seconds + other.seconds, joules: self.joules + other.joules }
    }
}

impl Mul<f64> for Cost {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Self { seconds: self.seconds * factor, joules: self.joules * factor }
    }
}

/// Work that ends in success or is aborted by a failure of one of several classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Probability that it succeeds.
    pub success: f64,
    /// Expected cost until it ends, either way.
    pub cost: Cost,
    /// Probability that a failure of each class aborts it, mildest class first.
    pub aborts: Vec<f64>,
}

impl Attempt {
    /// Runs for `seconds` at `watts` while failures of each class arrive at `rates_per_second`.
    pub fn run(seconds: f64, watts: f64, rates_per_second: &[f64]) -> Self {
        let rate: f64 = rates_per_second.iter().sum();
        if rate <= 0.0 {
            let cost = Cost { seconds, joules: seconds * watts };
            return Self { success: 1.0, cost, aborts: vec![0.0; rates_per_second.len()] };
        }
        let failure = -(-rate * seconds).exp_m1();
        let elapsed = failure / rate;
        Self {
            success: (-rate * seconds).exp(),
            cost: Cost { seconds: elapsed, joules: elapsed * watts },
            aborts: rates_per_second.iter().map(|class| failure * class / rate).collect(),
        }
    }

    /// Takes no time and succeeds with probability `success`; otherwise a failure of `class`, one of
    /// `classes`, aborts.
    pub fn chance(success: f64, class: usize, classes: usize) -> Self {
        let aborts = (0..classes).map(|c| if c == class { 1.0 - success } else { 0.0 }).collect();
        Self { success, cost: Cost::default(), aborts }
    }

    /// This, then `next`.
    pub fn then(&self, next: &Self) -> Self {
        Self {
            success: self.success * next.success,
            cost: self.cost + next.cost * self.success,
            aborts: pairwise(&self.aborts, &next.aborts, |first, second| {
                first + self.success * second
            }),
        }
    }

    /// This `times` times in a row, `times` ≥ 1.
    pub fn repeated(&self, times: u64) -> Self {
        let half = match times {
            0 | 1 => return self.clone(),
            _ => self.repeated(times / 2),
        };
        let whole = half.then(&half);
        if times.is_multiple_of(2) { whole } else { whole.then(self) }
    }

    /// Begun again at once whenever a failure of `class` or a milder one aborts it.
    pub fn restarted(&self, class: usize) -> Self {
        let nothing =
            Self { success: 1.0, cost: Cost::default(), aborts: vec![0.0; self.aborts.len()] };
        self.retried(class, &nothing)
    }

    /// Begun again after `recovery` whenever a failure of `class` or a milder one aborts it. What
    /// aborts `recovery` aborts the whole.
    pub fn retried(&self, class: usize, recovery: &Self) -> Self {
        let absorbed: f64 = self.aborts.iter().take(class + 1).sum();
        // 1 − absorbed · recovery.success, from its positive parts: where success is rare, the
        // difference would be rounding alone.
        let severe_aborts: f64 = self.aborts.iter().skip(class + 1).sum();
        let failed_recovery: f64 = recovery.aborts.iter().sum();
        let rounds = 1.0 / (self.success + severe_aborts + absorbed * failed_recovery);
        let severe = |c: usize, probability: f64| if c > class { probability } else { 0.0 };
        let aborts = self
            .aborts
            .iter()
            .zip(&recovery.aborts)
            .enumerate()
            .map(|(c, (own, during))| (severe(c, *own) + absorbed * during) * rounds)
            .collect();
        Self {
            success: self.success * rounds,
            cost: (self.cost + recovery.cost * absorbed) * rounds,
            aborts,
        }
    }
}

fn pairwise(a: &[f64], b: &[f64], join: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| join(*a, *b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total(attempt: &Attempt) -> f64 {
        attempt.success + attempt.aborts.iter().sum::<f64>()
    }

    proptest! {
        /// An attempt ends in exactly one way, however it was put together.
        #[test]
        fn probabilities_add_up_to_one(
            a in 0.1..2.0f64, b in 0.1..2.0f64, c in 0.1..2.0f64,
            mild in 0.0..1.0f64, severe in 0.0..1.0f64, times in 1u64..20,
        ) {
            let rates = [mild, severe];
            let recovery = Attempt::run(c, 1.0, &rates).restarted(0);
            let work = Attempt::run(a, 1.0, &rates).then(&Attempt::run(b, 1.0, &rates));
            let block = work.retried(0, &recovery).repeated(times);
            prop_assert!((total(&block) - 1.0).abs() < 1e-9);
            prop_assert!(block.aborts[0].abs() < 1e-12, "the mild class is absorbed");
            prop_assert!((block.cost.seconds - block.cost.joules).abs() < 1e-6 * block.cost.seconds);
        }

        /// However rare success is, nothing costs less than nothing.
        #[test]
        fn rare_success_costs_much(
            work in 0.0..1e4f64, restart in 0.0..10.0f64, mild in 1e-6..1.0f64, severe in 1e-6..1.0f64,
            times in 1u64..2000,
        ) {
            let rates = [mild, severe];
            let run = |seconds| Attempt::run(seconds, 1.0, &rates);
            let block = run(work).retried(0, &run(restart).restarted(0)).repeated(times);
            let whole = block.retried(1, &run(restart).restarted(1));
            let cost = whole.cost.seconds;
            prop_assert!(cost.is_nan() || cost >= work * (1.0 - 1e-9), "{cost}");
        }

        /// Exponential failures have no memory: cutting a run in two changes nothing.
        #[test]
        fn a_run_cut_in_two_is_the_same_run(
            seconds in 0.1..5.0f64, cut in 0.0..1.0f64, rate in 0.0..2.0f64,
        ) {
            let whole = Attempt::run(seconds, 2.0, &[rate]);
            let parts = Attempt::run(seconds * cut, 2.0, &[rate])
                .then(&Attempt::run(seconds * (1.0 - cut), 2.0, &[rate]));
            prop_assert!((whole.success - parts.success).abs() < 1e-12);
            prop_assert!((whole.cost.joules - parts.cost.joules).abs() < 1e-9);
        }
    }
}
