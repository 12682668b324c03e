//! Statistics against their definitions.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

use intarsia_des::{BatchMeans, Distribution, Histogram, Span, Streams, Tally, Time, TimeAverage};
use proptest::collection::vec;
use proptest::prelude::*;
use statrs::statistics::Statistics;

fn seconds(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

proptest! {
    #[test]
    fn a_tally_knows_mean_and_variance(
        values in vec(-1e6..1e6_f64, 2..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole: Tally = values.iter().copied().collect();
        let (left, right) = values.split_at(cut.index(values.len()));
        let mut merged: Tally = left.iter().copied().collect();
        merged.merge(&right.iter().copied().collect());
        for tally in [whole, merged] {
            prop_assert_eq!(tally.count(), values.len() as u64);
            prop_assert!((tally.mean() - (&values).mean()).abs() <= 1e-6);
            let variance = (&values).variance();
            prop_assert!((tally.variance() - variance).abs() <= 1e-9 * variance.max(1.0));
            prop_assert_eq!(tally.min(), (&values).min());
            prop_assert_eq!(tally.max(), (&values).max());
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values(mut nanos in vec(0..u64::MAX, 1..200)) {
        let mut histogram = Histogram::new(3).unwrap();
        nanos.iter().for_each(|value| histogram.record(Span::from_nanos(*value)));
        nanos.sort_unstable();
        for quantile in [0.0, 0.25, 0.5, 0.99, 1.0] {
            let place = (quantile * nanos.len() as f64).ceil().max(1.0);
            let exact = nanos[nanos.len().min(place as usize) - 1] as f64;
            let found = histogram.quantile(quantile).as_nanos() as f64;
            prop_assert!((found - exact).abs() <= 1e-3 * exact, "{quantile}: {found}, not {exact}");
        }
        prop_assert_eq!(histogram.count(), nanos.len() as u64);
    }
}

/// The example of W. S. Gosset, "The probable error of a mean", Biometrika 6(1), 1908: additional hours
/// of sleep. The 95 % interval of ten differences is 1.58 ± 0.879886.
#[test]
fn intervals_are_those_of_student() {
    let tally: Tally = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4].into_iter().collect();
    let interval = tally.interval(0.95);
    assert!((interval.mean - 1.58).abs() < 1e-12);
    assert!((interval.half_width - 0.879_886).abs() < 1e-6, "{interval}");
    assert_eq!(format!("{interval:.2}"), "1.58 ± 0.88");
}

#[test]
fn too_few_observations_tell_nothing() {
    let mut tally = Tally::new();
    assert_eq!(tally.half_width(0.95), f64::INFINITY);
    tally.record(1.0);
    assert_eq!((tally.half_width(0.95), tally.variance()), (f64::INFINITY, 0.0));
    tally.record(2.0);
    assert_eq!(tally.half_width(1.0), f64::INFINITY);
    assert_eq!(tally.half_width(f64::NAN), f64::INFINITY);
}

/// An autoregressive process, whose successive values say little new: intervals of batches hold the mean
/// about as often as promised, those of single values would not.
#[test]
fn batches_allow_for_dependence() {
    let noise = Distribution::uniform(-1.0, 1.0).unwrap();
    let (mut held, mut held_without_batches) = (0, 0);
    for seed in 0..200 {
        let mut rng = Streams::new(seed).stream("noise", 0);
        let (mut batches, mut value) = (BatchMeans::new(), 0.0);
        for _ in 0..5_000 {
            value = 0.9 * value + noise.sample(&mut rng);
            batches.record(value);
        }
        held += u32::from(batches.interval(0.9).contains(0.0));
        held_without_batches += u32::from(batches.observations().interval(0.9).contains(0.0));
    }
    assert!((165..=195).contains(&held), "{held} of 200 intervals hold the mean");
    assert!(held_without_batches < 100, "{held_without_batches}");
}

#[test]
fn time_weighs_the_average() {
    let mut queue = TimeAverage::new(seconds(1.0), 0.0);
    assert_eq!(queue.mean(seconds(1.0)), 0.0);
    queue.set(seconds(2.0), 3.0);
    queue.add(seconds(4.0), -2.0);
    assert_eq!(queue.integral(seconds(6.0)), 8.0);
    assert_eq!(queue.mean(seconds(6.0)), 8.0 / 5.0);
    assert_eq!((queue.value(), queue.max()), (1.0, 3.0));
    queue.restart(seconds(6.0));
    assert_eq!((queue.mean(seconds(8.0)), queue.max()), (1.0, 1.0));
}

#[test]
fn a_histogram_of_too_many_digits_is_refused() {
    let error = Histogram::new(9).unwrap_err();
    assert_eq!(error.to_string(), "histogram: digits must be between 0 and 5, not 9");
    let mut sum = Histogram::new(3).unwrap();
    let mut other = Histogram::new(3).unwrap();
    other.record(Span::FOREVER);
    sum.merge(&other).unwrap();
    assert_eq!(sum.count(), 1);
}
