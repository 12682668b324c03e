//! The expected efficiency of a multi-level scheme, without simulation.
//!
//! Failures are exponential; each class needs a certain level or a higher one and throws the job back
//! to the last checkpoint there. The levels nest, so the time between two checkpoints
//! of level l is a block that is retried as a whole, and [`Attempt`]s give its exact expectation.
//! Moody et al. (SC 2010) solve the same chain numerically; Benoit et al., "Towards optimal
//! multi-level checkpointing", IEEE Transactions on Computers 66(7), 2017, give its first order.

use crate::checkpoint::interval::{Attempt, Cost, maximise};

/// One level as the expectation sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelCosts {
    /// How long a checkpoint on this level blocks the application, lower levels included.
    pub write_seconds: f64,
    /// The failures that this level survives and the one below it does not, mildest first.
    pub failures: Vec<FailureClass>,
}

/// Failures that are recovered from in one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureClass {
    /// How many there are per second.
    pub per_second: f64,
    /// How long it takes until work goes on.
    pub restart_seconds: f64,
}

impl LevelCosts {
    /// Failures of all classes per second.
    pub fn failures_per_second(&self) -> f64 {
        self.failures.iter().map(|class| class.per_second).sum()
    }
}

/// Young's interval for the first level and all failures, in seconds: right to an order of magnitude.
pub fn rough_interval_seconds(levels: &[LevelCosts]) -> f64 {
    let rate: f64 = levels.iter().map(LevelCosts::failures_per_second).sum();
    let write = levels.first().map_or(1.0, |level| level.write_seconds).max(1e-3);
    (2.0 * write / rate.max(f64::MIN_POSITIVE)).sqrt()
}

/// Power while the application works, writes and restores, in watts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watts {
    /// While it works.
    pub work: f64,
    /// While it writes a checkpoint.
    pub write: f64,
    /// While it restarts.
    pub restore: f64,
}

/// A schedule: so much work between checkpoints, and how often each level is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Work between two checkpoints, in seconds.
    pub interval_seconds: f64,
    /// For each level but the first, how many checkpoints of the level below one of its own ends.
    pub ratios: Vec<u64>,
}

impl Pattern {
    /// How many intervals the whole pattern has.
    pub fn intervals(&self) -> u64 {
        self.ratios.iter().product()
    }

    /// The work in the whole pattern, in seconds.
    pub fn work_seconds(&self) -> f64 {
        self.interval_seconds * self.intervals() as f64
    }

    /// The expected cost of one pattern, from one checkpoint of the highest level to the next.
    /// `levels` are in order of safety, one more than there are ratios.
    pub fn expected(&self, levels: &[LevelCosts], watts: Watts) -> Cost {
        let classes = levels.iter().flat_map(|level| &level.failures);
        let rates: Vec<f64> = classes.map(|class| class.per_second).collect();
        let model = Model { levels, watts, rates: &rates, pattern: self };
        let top = levels.len().saturating_sub(1);
        model.block(top, top).cost
    }

    /// Useful work over expected elapsed time; 0 where success is too rare for a floating-point number.
    pub fn efficiency(&self, levels: &[LevelCosts]) -> f64 {
        let share = self.work_seconds() / self.expected(levels, Watts::default()).seconds;
        if share.is_nan() { 0.0 } else { share }
    }
}

struct Model<'m> {
    levels: &'m [LevelCosts],
    watts: Watts,
    rates: &'m [f64],
    pattern: &'m Pattern,
}

impl Model<'_> {
    /// The time from a checkpoint of `level` to the next one, which is written to the level `last`.
    fn block(&self, level: usize, last: usize) -> Attempt {
        let body = match level.checked_sub(1) {
            None => self.interval(last),
            Some(below) => match self.pattern.ratios.get(below) {
                None | Some(0 | 1) => self.block(below, last),
                Some(ratio) => {
                    self.block(below, below).repeated(ratio - 1).then(&self.block(below, last))
                }
            },
        };
        let milder: usize = self.levels.iter().take(level).map(|costs| costs.failures.len()).sum();
        let classes = self.levels.get(level).map_or(&[][..], |costs| &costs.failures);
        classes.iter().zip(milder..).fold(body, |block, (class, index)| {
            let recovery = Attempt::run(class.restart_seconds, self.watts.restore, self.rates);
            block.retried(index, &recovery.restarted(index))
        })
    }

    /// One interval of work and its checkpoint on the level `last`.
    fn interval(&self, last: usize) -> Attempt {
        let write = self.levels.get(last).map_or(0.0, |costs| costs.write_seconds);
        Attempt::run(self.pattern.interval_seconds, self.watts.work, self.rates)
            .then(&Attempt::run(write, self.watts.write, self.rates))
    }
}

/// The pattern of first order, Benoit et al. 2017, for rates λ, costs C that a level *adds* and N
/// intervals per checkpoint of level l: its overhead is Σ sqrt(2 λ C) at best. Ratios are rounded to
/// whole numbers of at least 1.
pub fn first_order(levels: &[LevelCosts]) -> Pattern {
    let mut below = 0.0;
    // Work between two checkpoints of a level: Young's formula for that level alone.
    let work: Vec<f64> = levels
        .iter()
        .map(|level| {
            let added = (level.write_seconds - below).max(f64::MIN_POSITIVE);
            below = level.write_seconds;
            (2.0 * added / level.failures_per_second().max(f64::MIN_POSITIVE)).sqrt()
        })
        .collect();
    let ratios: Vec<u64> = work.windows(2).map(|pair| whole(pair[1] / pair[0])).collect();
    Pattern { interval_seconds: work.first().copied().unwrap_or(0.0), ratios }
}

/// The pattern with the best exact efficiency: a coordinate search over the ratios from the first
/// order, the best interval for each by [`maximise`].
pub fn optimum(levels: &[LevelCosts]) -> Pattern {
    let start = first_order(levels);
    let mut best = with_best_interval(levels, &start.ratios);
    loop {
        let mut improved = false;
        for level in 0..best.1.ratios.len() {
            for factor in [0.5, 0.8, 1.25, 2.0] {
                improved |= try_ratio(levels, &mut best, level, |ratio| whole(ratio * factor));
            }
            improved |= try_ratio(levels, &mut best, level, |ratio| whole(ratio + 1.0));
            improved |= try_ratio(levels, &mut best, level, |ratio| whole(ratio - 1.0));
        }
        if !improved {
            return best.1;
        }
    }
}

/// Keeps the pattern with a changed ratio when it is better.
fn try_ratio(
    levels: &[LevelCosts],
    best: &mut (f64, Pattern),
    level: usize,
    change: impl Fn(f64) -> u64,
) -> bool {
    let mut ratios = best.1.ratios.clone();
    ratios[level] = change(ratios[level] as f64);
    if ratios == best.1.ratios {
        return false;
    }
    let candidate = with_best_interval(levels, &ratios);
    let better = candidate.0 > best.0 * (1.0 + 1e-12);
    if better {
        *best = candidate;
    }
    better
}

fn with_best_interval(levels: &[LevelCosts], ratios: &[u64]) -> (f64, Pattern) {
    let around = rough_interval_seconds(levels);
    let pattern = |interval_seconds| Pattern { interval_seconds, ratios: ratios.to_vec() };
    let found = maximise((around / 1e3, around * 1e3), |tau| pattern(tau).efficiency(levels));
    (found.value, pattern(found.at))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and the ratio is clamped to a range far inside"
)]
fn whole(ratio: f64) -> u64 {
    ratio.round().clamp(1.0, 1e6) as u64
}

#[cfg(test)]
mod tests {
    use intarsia_des::Streams;

    use super::*;
    use crate::checkpoint::interval::Costs;

    fn level(write_seconds: f64, restore_seconds: f64, mtbf_seconds: f64) -> LevelCosts {
        let per_second = 1.0 / mtbf_seconds;
        let failures = vec![FailureClass { per_second, restart_seconds: restore_seconds }];
        LevelCosts { write_seconds, failures }
    }

    #[test]
    fn one_level_is_the_formula_of_daly() {
        let costs = Costs::new(300.0, 120.0, 3600.0).unwrap();
        let pattern = Pattern { interval_seconds: 1277.0, ratios: vec![] };
        let ours = pattern.efficiency(&[level(300.0, 120.0, 3600.0)]);
        assert!((ours / costs.efficiency(1277.0) - 1.0).abs() < 1e-12);
        let best = optimum(&[level(300.0, 120.0, 3600.0)]);
        assert!((best.interval_seconds / costs.exact_seconds() - 1.0).abs() < 1e-4, "{best:?}");
    }

    /// A level that never fails and costs nothing more changes nothing.
    #[test]
    fn an_idle_level_does_not_matter() {
        let one = Pattern { interval_seconds: 900.0, ratios: vec![] };
        let two = Pattern { interval_seconds: 900.0, ratios: vec![7] };
        let busy = level(60.0, 30.0, 7200.0);
        let idle = level(60.0, 30.0, f64::INFINITY);
        let alone = one.efficiency(std::slice::from_ref(&busy));
        let difference = alone / two.efficiency(&[busy, idle]) - 1.0;
        assert!(difference.abs() < 1e-12, "{difference}");
    }

    /// Oracle: the chain itself, event by event. Three levels, one with two classes of failures; energy
    /// and time.
    #[test]
    fn the_expectation_agrees_with_a_simulation_of_the_chain() {
        let mut levels =
            [level(5.0, 10.0, 400.0), level(20.0, 30.0, 900.0), level(60.0, 90.0, 2500.0)];
        levels[0]
            .failures
            .insert(0, FailureClass { per_second: 1.0 / 700.0, restart_seconds: 2.0 });
        let pattern = Pattern { interval_seconds: 60.0, ratios: vec![3, 2] };
        let watts = Watts { work: 100.0, write: 60.0, restore: 40.0 };
        let expected = pattern.expected(&levels, watts);
        let mut rng = Streams::new(5).stream("chain", 0);
        let runs = 20_000;
        let costs: Vec<Cost> =
            (0..runs).map(|_| simulated(&levels, &pattern, watts, &mut rng)).collect();
        for (value, of) in [
            (expected.seconds, (|cost: &Cost| cost.seconds) as fn(&Cost) -> f64),
            (expected.joules, |cost: &Cost| cost.joules),
        ] {
            let n = f64::from(runs);
            let mean = costs.iter().map(of).sum::<f64>() / n;
            let variance = costs.iter().map(|cost| (of(cost) - mean).powi(2)).sum::<f64>() / n;
            let four_errors = 4.0 * (variance / n).sqrt();
            assert!((value - mean).abs() < four_errors, "{value} against {mean} ± {four_errors}");
        }
    }

    /// Runs one pattern: walks its intervals, draws failures, goes back to the checkpoint that the
    /// class of the failure leaves.
    fn simulated(
        levels: &[LevelCosts],
        pattern: &Pattern,
        watts: Watts,
        rng: &mut impl rand::Rng,
    ) -> Cost {
        // Classes from mild to severe, each with its level.
        let classes: Vec<(usize, FailureClass)> = levels
            .iter()
            .enumerate()
            .flat_map(|(level, costs)| costs.failures.iter().map(move |class| (level, *class)))
            .collect();
        let rate: f64 = classes.iter().map(|(_, class)| class.per_second).sum();
        let every = [1, pattern.ratios[0], pattern.ratios[0] * pattern.ratios[1]];
        let mut spent = Cost::default();
        let mut run = |seconds: f64, watts: f64, rng: &mut _| -> Option<usize> {
            let failure = -(1.0 - rand::RngExt::random::<f64>(rng)).ln() / rate;
            let elapsed = failure.min(seconds);
            spent = spent + Cost { seconds: elapsed, joules: elapsed * watts };
            (failure < seconds).then(|| {
                let mut point = rand::RngExt::random::<f64>(rng) * rate;
                let struck = classes.iter().position(|(_, class)| {
                    point -= class.per_second;
                    point < 0.0
                });
                struck.unwrap_or(classes.len() - 1)
            })
        };
        let mut done = 0;
        let mut restoring: Option<usize> = None;
        while done < pattern.intervals() {
            let failed = match restoring {
                Some(class) => run(classes[class].1.restart_seconds, watts.restore, rng),
                None => run(pattern.interval_seconds, watts.work, rng).or_else(|| {
                    let last = every.iter().rposition(|every| (done + 1) % every == 0).unwrap();
                    run(levels[last].write_seconds, watts.write, rng)
                }),
            };
            match (failed, restoring) {
                (Some(class), before) => {
                    let class = before.map_or(class, |before| before.max(class));
                    done -= done % every[classes[class].0];
                    restoring = Some(class);
                }
                (None, Some(_)) => restoring = None,
                (None, None) => done += 1,
            }
        }
        spent
    }

    /// Benoit et al. 2017: for rare failures the least overhead is Σ sqrt(2 λ C).
    #[test]
    fn rare_failures_cost_what_the_first_order_says() {
        let levels = [level(10.0, 0.0, 1e7), level(100.0, 0.0, 1e8), level(1000.0, 0.0, 1e9)];
        let added = [10.0, 90.0, 900.0];
        let overhead: f64 = levels
            .iter()
            .zip(added)
            .map(|(level, added)| (2.0 * level.failures_per_second() * added).sqrt())
            .sum();
        let best = optimum(&levels);
        let ours = 1.0 / best.efficiency(&levels) - 1.0;
        assert!((ours / overhead - 1.0).abs() < 0.02, "{ours} against {overhead}, {best:?}");
    }

    /// The sums once cancelled there, so that a hopeless interval seemed to take no time.
    #[test]
    fn a_hopeless_interval_is_not_efficient() {
        let levels = [level(110.0, 700.0, 18_200.0), level(550.0, 1060.0, 1.8e6)];
        for interval_seconds in [1e5, 1e6, 1e7, 1e9] {
            let pattern = Pattern { interval_seconds, ratios: vec![18] };
            let share = pattern.efficiency(&levels);
            assert!((0.0..1e-1).contains(&share), "{interval_seconds}: {share}");
            let cost = pattern.expected(&levels, Watts { work: 1.0, write: 1.0, restore: 1.0 });
            assert!(cost.joules.is_nan() || cost.joules >= cost.seconds * 0.999, "{cost:?}");
        }
    }

    #[test]
    fn a_second_level_pays_when_most_failures_are_mild() {
        let lower = level(600.0, 600.0, 86_400.0 / 24.0);
        let lower = [lower];
        let alone = optimum(&lower).efficiency(&lower);
        let mild = level(10.0, 10.0, 86_400.0 / 23.0);
        let severe = level(610.0, 600.0, 86_400.0);
        let levels = [mild, severe];
        let both = optimum(&levels).efficiency(&levels);
        assert!(alone < 0.5 && both > 0.8, "{alone} {both}");
    }
}
