//! Distributions of times: between failures, and of repairs.

use std::f64::consts::SQRT_2;

use intarsia_des::{Distribution, InvalidParameter};
use rand::{Rng, RngExt};
use statrs::function::erf::erfc;
use statrs::function::gamma::{gamma_lr, gamma_ur};

/// A distribution of non-negative times in seconds, with a finite mean above zero.
///
/// Beside samples it gives what renewal theory asks for: the survival function, its integral, and
/// the forward recurrence time. Read from a table such as
///
/// ```toml
/// { model = "exponential", mean = "5 years" }
/// { model = "weibull", shape = 0.65, scale = "9.6 h" }     # or mean = "13.1 h"
/// { model = "log-normal", median = "1.3 h", sigma = 1.1 }  # sigma of the natural logarithm
/// { model = "gamma", shape = 0.7, scale = "20 h" }
/// { model = "empirical", values = ["3 h", "20 min"] }      # or file = "gaps.txt", seconds per line
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TimeDistribution {
    law: Law,
    mean_seconds: f64,
    sampler: Distribution,
    /// What leads to a gap that is met with a probability proportional to its length.
    met: Distribution,
}

#[derive(Clone, Debug, PartialEq)]
enum Law {
    Exponential,
    Weibull { shape: f64, scale: f64 },
    LogNormal { mu: f64, sigma: f64 },
    Gamma { shape: f64, scale: f64 },
    Empirical { sorted: Vec<f64>, sums: Vec<f64> },
}

/// Means beyond the age of the universe come from a mistyped parameter.
const LONGEST_MEAN_SECONDS: f64 = 1e18;
const OWNER: &str = "distribution of times";

impl TimeDistribution {
    /// No memory: survival e^(−t / mean).
    ///
    /// # Errors
    /// When `mean_seconds` is not positive and finite.
    pub fn exponential(mean_seconds: f64) -> Result<Self, InvalidParameter> {
        let sampler = Distribution::exponential(mean_seconds)?;
        Self::checked(Law::Exponential, sampler.clone(), sampler)
    }

    /// Survival e^(−(t / scale)^shape); a shape below 1 clusters the failures.
    ///
    /// # Errors
    /// When a parameter is not positive and finite, or the mean is not.
    pub fn weibull(shape: f64, scale_seconds: f64) -> Result<Self, InvalidParameter> {
        let sampler = Distribution::weibull(shape, scale_seconds)?;
        // If X is Weibull, (X / λ)^k is exponential, and weighted by X it is gamma(1 + 1/k).
        let met = Distribution::gamma(1.0 + 1.0 / shape, 1.0)?;
        Self::checked(Law::Weibull { shape, scale: scale_seconds }, sampler, met)
    }

    /// The Weibull distribution with this shape and this mean.
    ///
    /// # Errors
    /// When a parameter is not positive and finite.
    pub fn weibull_with_mean(shape: f64, mean_seconds: f64) -> Result<Self, InvalidParameter> {
        let unit = Distribution::weibull(shape, 1.0)?.mean();
        Self::weibull(shape, mean_seconds / unit)
    }

    /// The natural logarithm of the time in seconds is normal with mean `mu` and standard deviation
    /// `sigma`; the median is e^mu.
    ///
    /// # Errors
    /// When `mu` is not finite, `sigma` is not positive and finite, or the mean is not.
    pub fn log_normal(mu: f64, sigma: f64) -> Result<Self, InvalidParameter> {
        if sigma <= 0.0 {
            return Err(invalid("sigma", sigma, "positive and finite"));
        }
        let sampler = Distribution::log_normal(mu, sigma)?;
        let met = Distribution::log_normal(mu + sigma * sigma, sigma)?;
        Self::checked(Law::LogNormal { mu, sigma }, sampler, met)
    }

    /// Density proportional to t^(shape − 1) e^(−t / scale).
    ///
    /// # Errors
    /// When a parameter is not positive and finite.
    pub fn gamma(shape: f64, scale_seconds: f64) -> Result<Self, InvalidParameter> {
        let sampler = Distribution::gamma(shape, scale_seconds)?;
        let met = Distribution::gamma(shape + 1.0, scale_seconds)?;
        Self::checked(Law::Gamma { shape, scale: scale_seconds }, sampler, met)
    }

    /// Recorded times, drawn with replacement.
    ///
    /// # Errors
    /// When there is none above zero, or one is negative or not finite.
    pub fn empirical(mut values_seconds: Vec<f64>) -> Result<Self, InvalidParameter> {
        let sampler = Distribution::empirical(&values_seconds)?;
        values_seconds.sort_unstable_by(f64::total_cmp);
        if let Some(negative) = values_seconds.first().filter(|least| **least < 0.0) {
            return Err(invalid("values", *negative, "finite and not negative"));
        }
        let sums = values_seconds
            .iter()
            .scan(0.0, |total, value| {
                *total += value;
                Some(*total)
            })
            .collect();
        Self::checked(Law::Empirical { sorted: values_seconds, sums }, sampler.clone(), sampler)
    }

    fn checked(
        law: Law,
        sampler: Distribution,
        met: Distribution,
    ) -> Result<Self, InvalidParameter> {
        let mean_seconds = sampler.mean();
        if mean_seconds > 0.0 && mean_seconds < LONGEST_MEAN_SECONDS {
            Ok(Self { law, mean_seconds, sampler, met })
        } else {
            Err(invalid("mean", mean_seconds, "above 0 s and below 1e18 s"))
        }
    }

    /// The mean, in seconds.
    pub fn mean_seconds(&self) -> f64 {
        self.mean_seconds
    }

    /// Whether the distribution has no memory, so that superposed processes collapse into one.
    pub fn is_exponential(&self) -> bool {
        matches!(self.law, Law::Exponential)
    }

    /// P(X > `seconds`).
    pub fn survival(&self, seconds: f64) -> f64 {
        if seconds < 0.0 {
            return 1.0;
        }
        match &self.law {
            Law::Exponential => (-seconds / self.mean_seconds).exp(),
            Law::Weibull { shape, scale } => (-(seconds / scale).powf(*shape)).exp(),
            Law::LogNormal { mu, sigma } => normal_survival((seconds.ln() - mu) / sigma),
            Law::Gamma { shape, scale } => upper_gamma(*shape, seconds / scale),
            Law::Empirical { sorted, .. } => {
                1.0 - not_above(sorted, seconds) as f64 / sorted.len() as f64
            }
        }
    }

    /// E[min(X, `seconds`)], the integral of the survival function from 0, in seconds. Divided by
    /// the mean it is the distribution function of the time to the first failure of a process in
    /// equilibrium.
    pub fn limited_mean_seconds(&self, seconds: f64) -> f64 {
        if seconds <= 0.0 {
            return 0.0;
        }
        // The part of the mean that gaps up to `seconds` contribute.
        let share_below = match &self.law {
            Law::Exponential => {
                return -self.mean_seconds * (-seconds / self.mean_seconds).exp_m1();
            }
            Law::Weibull { shape, scale } => {
                lower_gamma(1.0 + 1.0 / shape, (seconds / scale).powf(*shape))
            }
            Law::LogNormal { mu, sigma } => normal_survival(sigma - (seconds.ln() - mu) / sigma),
            Law::Gamma { shape, scale } => lower_gamma(shape + 1.0, seconds / scale),
            Law::Empirical { sorted, sums } => match not_above(sorted, seconds) {
                0 => 0.0,
                count => sums[count - 1] / sums[sums.len() - 1],
            },
        };
        let survival = self.survival(seconds);
        let above = if survival > 0.0 { seconds * survival } else { 0.0 };
        self.mean_seconds * share_below + above
    }

    /// Draws a time, in seconds.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.sampler.sample(rng)
    }

    /// Draws the time, in seconds, from an arbitrary moment to the next failure of a process that
    /// has run for long (the forward recurrence time): a uniform part of a gap that was met with a
    /// probability proportional to its length.
    pub fn sample_equilibrium<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let met = match &self.law {
            Law::Exponential => return self.sample(rng),
            Law::Weibull { shape, scale } => scale * self.met.sample(rng).powf(1.0 / shape),
            Law::LogNormal { .. } | Law::Gamma { .. } => self.met.sample(rng),
            Law::Empirical { sorted, sums } => {
                let point = rng.random::<f64>() * sums[sums.len() - 1];
                sorted[sums.partition_point(|sum| *sum <= point).min(sorted.len() - 1)]
            }
        };
        met * rng.random::<f64>()
    }

    /// The same distribution with all times multiplied by `factor`.
    ///
    /// # Errors
    /// When `factor` is not positive and finite, or the mean would not be.
    pub fn stretched(&self, factor: f64) -> Result<Self, InvalidParameter> {
        match &self.law {
            Law::Exponential => Self::exponential(self.mean_seconds * factor),
            Law::Weibull { shape, scale } => Self::weibull(*shape, scale * factor),
            Law::LogNormal { mu, sigma } => Self::log_normal(mu + factor.ln(), *sigma),
            Law::Gamma { shape, scale } => Self::gamma(*shape, scale * factor),
            Law::Empirical { sorted, .. } => {
                Self::empirical(sorted.iter().map(|value| value * factor).collect())
            }
        }
    }
}

fn invalid(parameter: &str, value: f64, requirement: &'static str) -> InvalidParameter {
    InvalidParameter { owner: OWNER, parameter: parameter.to_owned(), value, requirement }
}

/// How many of `sorted` are at most `seconds`.
fn not_above(sorted: &[f64], seconds: f64) -> usize {
    sorted.partition_point(|value| *value <= seconds)
}

fn normal_survival(z: f64) -> f64 {
    0.5 * erfc(z / SQRT_2)
}

/// The regularised lower incomplete gamma function, at its limits as well.
fn lower_gamma(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if x.is_infinite() {
        1.0
    } else {
        gamma_lr(shape, x)
    }
}

/// The regularised upper incomplete gamma function, at its limits as well.
fn upper_gamma(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        1.0
    } else if x.is_infinite() {
        0.0
    } else {
        gamma_ur(shape, x)
    }
}

#[cfg(test)]
mod tests {
    use intarsia_des::Streams;

    use super::*;

    fn all() -> Vec<TimeDistribution> {
        vec![
            TimeDistribution::exponential(50.0).unwrap(),
            TimeDistribution::weibull(0.65, 40.0).unwrap(),
            TimeDistribution::log_normal(3.0, 1.2).unwrap(),
            TimeDistribution::gamma(0.7, 60.0).unwrap(),
            TimeDistribution::empirical(vec![0.0, 5.0, 9.0, 40.0, 130.0, 13.0]).unwrap(),
        ]
    }

    /// Oracle: the integral of the survival function by the trapezoidal rule.
    #[test]
    fn limited_mean_is_the_integral_of_the_survival() {
        for distribution in all() {
            for limit in [0.7, 12.0, 55.0, 400.0] {
                let steps = 100_000;
                let width = limit / f64::from(steps);
                let inner: f64 =
                    (1..steps).map(|i| distribution.survival(f64::from(i) * width)).sum();
                let ends = 0.5 * (distribution.survival(0.0) + distribution.survival(limit));
                let integral = (inner + ends) * width;
                let ours = distribution.limited_mean_seconds(limit);
                assert!((ours / integral - 1.0).abs() < 2e-4, "{distribution:?} at {limit}");
            }
            let whole = distribution.limited_mean_seconds(1e30);
            assert!((whole / distribution.mean_seconds() - 1.0).abs() < 1e-9, "{distribution:?}");
        }
    }

    /// Kolmogorov–Smirnov distance of the samples from the distribution functions: below 1.95 /
    /// sqrt(n) with probability 0.999.
    #[test]
    fn samples_follow_the_distribution_and_its_equilibrium() {
        let n = 20_000;
        let limit = 1.95 / f64::from(n).sqrt();
        for distribution in all() {
            let mean = distribution.mean_seconds();
            let mut rng = Streams::new(7).stream("test", 0);
            let mut draw = |equilibrium: bool| -> Vec<f64> {
                let one = |_| match equilibrium {
                    true => distribution.sample_equilibrium(&mut rng),
                    false => distribution.sample(&mut rng),
                };
                (0..n).map(one).collect()
            };
            if !matches!(distribution.law, Law::Empirical { .. }) {
                let far = distance(draw(false), |x| 1.0 - distribution.survival(x));
                assert!(far < limit, "{distribution:?}: gaps {far}");
            }
            let far = distance(draw(true), |x| distribution.limited_mean_seconds(x) / mean);
            assert!(far < limit, "{distribution:?}: equilibrium {far}");
        }
    }

    fn distance(mut samples: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        samples.sort_by(f64::total_cmp);
        let n = samples.len() as f64;
        let gap = |(rank, x): (usize, &f64)| {
            let below = cdf(*x);
            (below - rank as f64 / n).abs().max(((rank + 1) as f64 / n - below).abs())
        };
        samples.iter().enumerate().map(gap).fold(0.0, f64::max)
    }

    #[test]
    fn stretching_multiplies_every_time() {
        for distribution in all() {
            let stretched = distribution.stretched(3.0).unwrap();
            assert!((stretched.mean_seconds() / distribution.mean_seconds() - 3.0).abs() < 1e-9);
            let survival = (stretched.survival(60.0), distribution.survival(20.0));
            assert!((survival.0 - survival.1).abs() < 1e-12);
            assert!(distribution.stretched(0.0).is_err());
        }
    }
}
