//! Distributions of durations, sizes and whatever else a model draws.

use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::Distribution as _;
use statrs::function::gamma::ln_gamma;

use crate::parameter::{InvalidParameter, finite, invalid, not_negative, positive};

/// A distribution of real numbers, in the unit of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution(Law);

#[derive(Clone, Debug, PartialEq)]
enum Law {
    Constant(f64),
    Uniform {
        low: f64,
        high: f64,
    },
    Exponential {
        mean: f64,
    },
    Weibull {
        shape: f64,
        scale: f64,
    },
    Gamma {
        shape: f64,
        scale: f64,
        sampler: rand_distr::Gamma<f64>,
    },
    LogNormal {
        mu: f64,
        sigma: f64,
        sampler: rand_distr::LogNormal<f64>,
    },
    /// The values, sorted.
    Empirical(Arc<[f64]>),
    /// The values, sorted; at least two.
    Interpolated(Arc<[f64]>),
}

impl Distribution {
    /// Always `value`.
    ///
    /// # Errors
    /// When `value` is not finite.
    pub fn constant(value: f64) -> Result<Self, InvalidParameter> {
        finite("constant distribution", "value", value)?;
        Ok(Self(Law::Constant(value)))
    }

    /// All values between `low` and `high` alike.
    ///
    /// # Errors
    /// When a limit is not finite, or `high` is below `low`.
    pub fn uniform(low: f64, high: f64) -> Result<Self, InvalidParameter> {
        finite("uniform distribution", "low", low)?;
        finite("uniform distribution", "high", high)?;
        if high < low {
            return Err(invalid("uniform distribution", "high", high, "at least low"));
        }
        Ok(Self(Law::Uniform { low, high }))
    }

    /// Exponential with this mean.
    ///
    /// # Errors
    /// When the mean is not positive and finite.
    pub fn exponential(mean: f64) -> Result<Self, InvalidParameter> {
        positive("exponential distribution", "mean", mean)?;
        Ok(Self(Law::Exponential { mean }))
    }

    /// Weibull: `P(X > x) = exp(-(x / scale)^shape)`.
    ///
    /// # Errors
    /// When a parameter is not positive and finite.
    pub fn weibull(shape: f64, scale: f64) -> Result<Self, InvalidParameter> {
        positive("Weibull distribution", "shape", shape)?;
        positive("Weibull distribution", "scale", scale)?;
        Ok(Self(Law::Weibull { shape, scale }))
    }

    /// Weibull with this mean: its scale is `mean / Γ(1 + 1/shape)`.
    ///
    /// # Errors
    /// When a parameter is not positive and finite, or the scale that follows is not.
    pub fn weibull_with_mean(shape: f64, mean: f64) -> Result<Self, InvalidParameter> {
        positive("Weibull distribution", "shape", shape)?;
        positive("Weibull distribution", "mean", mean)?;
        Self::weibull(shape, mean / ln_gamma(1.0 + 1.0 / shape).exp())
    }

    /// Gamma with mean `shape × scale`.
    ///
    /// # Errors
    /// When a parameter is not positive and finite.
    pub fn gamma(shape: f64, scale: f64) -> Result<Self, InvalidParameter> {
        positive("gamma distribution", "shape", shape)?;
        positive("gamma distribution", "scale", scale)?;
        let sampler = rand_distr::Gamma::new(shape, scale)
            .map_err(|_| invalid("gamma distribution", "shape", shape, "positive and finite"))?;
        Ok(Self(Law::Gamma { shape, scale, sampler }))
    }

    /// Log-normal: the logarithm has mean `mu` and standard deviation `sigma`; the median is
    /// `exp(mu)`.
    ///
    /// # Errors
    /// When `mu` is not finite, or `sigma` is negative or not finite.
    pub fn log_normal(mu: f64, sigma: f64) -> Result<Self, InvalidParameter> {
        finite("log-normal distribution", "mu", mu)?;
        not_negative("log-normal distribution", "sigma", sigma)?;
        let sampler = rand_distr::LogNormal::new(mu, sigma).map_err(|_| {
            invalid("log-normal distribution", "sigma", sigma, "finite and not negative")
        })?;
        Ok(Self(Law::LogNormal { mu, sigma, sampler }))
    }

    /// One of the observed `values`, all alike.
    ///
    /// # Errors
    /// When there is none, or one is not finite.
    pub fn empirical(values: &[f64]) -> Result<Self, InvalidParameter> {
        Ok(Self(Law::Empirical(sorted("empirical distribution", values, 1)?)))
    }

    /// Between neighbouring observed `values`: the distribution function is linear between the
    /// sorted values and reaches `(i - 1) / (n - 1)` at the i-th (A. M. Law, "Simulation Modeling and
    /// Analysis", section 6.2.4).
    ///
    /// # Errors
    /// When there are fewer than two, or one is not finite.
    pub fn empirical_interpolated(values: &[f64]) -> Result<Self, InvalidParameter> {
        Ok(Self(Law::Interpolated(sorted("interpolated empirical distribution", values, 2)?)))
    }

    /// The expected value.
    pub fn mean(&self) -> f64 {
        match &self.0 {
            Law::Constant(value) => *value,
            Law::Uniform { low, high } => f64::midpoint(*low, *high),
            Law::Exponential { mean } => *mean,
            Law::Weibull { shape, scale } => scale * ln_gamma(1.0 + 1.0 / shape).exp(),
            Law::Gamma { shape, scale, .. } => shape * scale,
            Law::LogNormal { mu, sigma, .. } => (mu + sigma * sigma / 2.0).exp(),
            Law::Empirical(values) => average(values.iter().copied()),
            Law::Interpolated(values) => average(pieces(values).map(|(a, b)| f64::midpoint(a, b))),
        }
    }

    /// The variance.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        match &self.0 {
            Law::Constant(_) => 0.0,
            Law::Uniform { low, high } => (high - low).powi(2) / 12.0,
            Law::Exponential { mean } => mean * mean,
            Law::Weibull { shape, scale } => {
                scale * scale * ln_gamma(1.0 + 2.0 / shape).exp() - mean * mean
            }
            Law::Gamma { shape, scale, .. } => shape * scale * scale,
            Law::LogNormal { sigma, .. } => (sigma * sigma).exp_m1() * mean * mean,
            Law::Empirical(values) => average(values.iter().map(|value| (value - mean).powi(2))),
            Law::Interpolated(values) => average(pieces(values).map(|(a, b)| {
                let (a, b) = (a - mean, b - mean);
                (a * a + a * b + b * b) / 3.0
            })),
        }
    }

    /// Draws a value.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match &self.0 {
            Law::Constant(value) => *value,
            Law::Uniform { low, high } => low + (high - low) * rng.random::<f64>(),
            Law::Exponential { mean } => mean * exponential(rng),
            Law::Weibull { shape, scale } => scale * exponential(rng).powf(1.0 / shape),
            Law::Gamma { sampler, .. } => sampler.sample(rng),
            Law::LogNormal { sampler, .. } => sampler.sample(rng),
            Law::Empirical(values) => values[rng.random_range(0..values.len())],
            Law::Interpolated(values) => {
                let left = rng.random_range(0..values.len() - 1);
                values[left] + (values[left + 1] - values[left]) * rng.random::<f64>()
            }
        }
    }
}

/// An exponential number with mean one.
fn exponential<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    rand_distr::Exp1.sample(rng)
}

/// Neighbours of a sorted sample.
fn pieces(values: &[f64]) -> impl ExactSizeIterator<Item = (f64, f64)> {
    values.windows(2).map(|pair| (pair[0], pair[1]))
}

fn average(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn sorted(
    owner: &'static str,
    values: &[f64],
    least: usize,
) -> Result<Arc<[f64]>, InvalidParameter> {
    if values.len() < least {
        let requirement = if least == 1 { "at least one" } else { "at least two" };
        return Err(invalid(owner, "number of values", values.len() as f64, requirement));
    }
    for (index, value) in values.iter().enumerate() {
        finite(owner, &format!("values[{index}]"), *value)?;
    }
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    Ok(values.into())
}
