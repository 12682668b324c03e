//! Samples follow the distribution that was asked for, and wrong parameters are named.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use intarsia_des::{Distribution, InvalidParameter, Streams, Tally};
use statrs::distribution::{ContinuousCDF, Exp, Gamma, LogNormal, Uniform, Weibull};

const SAMPLES: u32 = 20_000;

fn samples(distribution: &Distribution) -> Vec<f64> {
    let mut rng = Streams::new(5).stream("samples", 0);
    (0..SAMPLES).map(|_| distribution.sample(&mut rng)).collect()
}

/// The test of Kolmogorov and Smirnov: the greatest distance between the two distribution functions.
#[track_caller]
fn follows(distribution: &Distribution, cdf: impl Fn(f64) -> f64) {
    let mut values = samples(distribution);
    values.sort_unstable_by(f64::total_cmp);
    let step = 1.0 / f64::from(SAMPLES);
    let distance = values
        .iter()
        .enumerate()
        .map(|(place, value)| {
            let below = place as f64 * step;
            (cdf(*value) - below).abs().max((below + step - cdf(*value)).abs())
        })
        .fold(0.0, f64::max);
    // Exceeded by one correct sample in a thousand.
    let limit = 1.95 * step.sqrt();
    assert!(distance < limit, "{distribution:?}: distance {distance}, limit {limit}");
}

#[test]
fn samples_follow_their_distribution() {
    let uniform = Uniform::new(2.0, 5.0).unwrap();
    follows(&Distribution::uniform(2.0, 5.0).unwrap(), |x| uniform.cdf(x));
    let exponential = Exp::new(0.25).unwrap();
    follows(&Distribution::exponential(4.0).unwrap(), |x| exponential.cdf(x));
    let weibull = Weibull::new(0.7, 3.0).unwrap();
    follows(&Distribution::weibull(0.7, 3.0).unwrap(), |x| weibull.cdf(x));
    let gamma = Gamma::new(2.5, 1.0 / 3.0).unwrap();
    follows(&Distribution::gamma(2.5, 3.0).unwrap(), |x| gamma.cdf(x));
    let log_normal = LogNormal::new(1.0, 0.5).unwrap();
    follows(&Distribution::log_normal(1.0, 0.5).unwrap(), |x| log_normal.cdf(x));
    // Linear between 0, 1 and 3: half of the values on each side of 1.
    let interpolated = Distribution::empirical_interpolated(&[3.0, 0.0, 1.0]).unwrap();
    follows(&interpolated, |x| if x < 1.0 { x / 2.0 } else { 0.5 + (x - 1.0) / 4.0 });
}

#[test]
fn mean_and_variance_are_those_of_the_samples() {
    for distribution in [
        Distribution::constant(3.0).unwrap(),
        Distribution::uniform(-1.0, 2.0).unwrap(),
        Distribution::exponential(0.5).unwrap(),
        Distribution::weibull(1.5, 2.0).unwrap(),
        Distribution::weibull_with_mean(0.7, 13.2).unwrap(),
        Distribution::gamma(0.5, 2.0).unwrap(),
        Distribution::log_normal(0.0, 0.4).unwrap(),
        Distribution::empirical(&[1.0, 2.0, 2.0, 9.0]).unwrap(),
        Distribution::empirical_interpolated(&[1.0, 2.0, 2.0, 9.0]).unwrap(),
    ] {
        let values = samples(&distribution);
        let tally: Tally = values.iter().copied().collect();
        let mean = tally.interval(0.9999);
        assert!(mean.contains(distribution.mean()), "{distribution:?}: sampled mean {mean}");
        let squares: Tally =
            values.iter().map(|value| (value - distribution.mean()).powi(2)).collect();
        let variance = squares.interval(0.9999);
        assert!(
            variance.contains(distribution.variance()),
            "{distribution:?}: {} but sampled variance {variance}",
            distribution.variance()
        );
    }
    let with_mean = Distribution::weibull_with_mean(0.7, 13.2).unwrap();
    assert!((with_mean.mean() / 13.2 - 1.0).abs() < 1e-12);
}

#[test]
fn a_wrong_parameter_is_named() {
    let message = |it: Result<Distribution, InvalidParameter>| it.unwrap_err().to_string();
    for (error, expected) in [
        (
            message(Distribution::exponential(0.0)),
            "exponential distribution: mean must be positive and finite, not 0",
        ),
        (
            message(Distribution::weibull(-1.0, 1.0)),
            "Weibull distribution: shape must be positive and finite, not -1",
        ),
        (
            message(Distribution::gamma(1.0, f64::INFINITY)),
            "gamma distribution: scale must be positive and finite, not inf",
        ),
        (
            message(Distribution::log_normal(0.0, -2.0)),
            "log-normal distribution: sigma must be finite and not negative, not -2",
        ),
        (
            message(Distribution::uniform(2.0, 1.0)),
            "uniform distribution: high must be at least low, not 1",
        ),
        (
            message(Distribution::constant(f64::NAN)),
            "constant distribution: value must be finite, not NaN",
        ),
        (
            message(Distribution::empirical(&[])),
            "empirical distribution: number of values must be at least one, not 0",
        ),
        (
            message(Distribution::empirical_interpolated(&[1.0, f64::NAN])),
            "interpolated empirical distribution: values[1] must be finite, not NaN",
        ),
    ] {
        assert_eq!(error, expected);
    }
    // A mean that no finite scale gives.
    assert!(Distribution::weibull_with_mean(1e-3, 1.0).is_err());
}
