//! Failures of any distribution: efficiency and optimum by renewal theory.
//!
//! The times between failures of the job are independent and equally distributed, and every failure
//! begins a new one (an ordinary renewal process of the whole job). A gap of length X then saves
//! ⌊(X − R) / (τ + C)⌋ intervals, so by the renewal–reward theorem (Ross, *Stochastic Processes*,
//! section 3.6)
//!
//! E(τ) = τ · E[⌊(X − R)⁺ / (τ + C)⌋] / E[X] = τ / E[X] · Σ_{k ≥ 1} S(R + k (τ + C)),
//!
//! with S the survival function of X. For exponential X the sum is geometric and gives
//! [`Costs::efficiency`](super::Costs::efficiency). A job over many nodes, each with its own
//! renewal process, is *not* of this kind; its superposed failures approach a Poisson process, or
//! ask for [`maximise_simulated`](super::maximise_simulated).

use super::search::{Optimum, maximise};
use crate::checkpoint::failure::TimeDistribution;

/// Terms that are summed one by one; behind them S changes so little from term to term that the
/// integral of S replaces the sum (midpoint rule).
const TERMS: u32 = 4096;
const NEGLIGIBLE: f64 = 1e-17;
/// How far from the first-order optimum the search looks.
const REACH: f64 = 1e3;

/// Efficiency with `interval_seconds` of work per checkpoint, when `gaps` are the times between
/// failures of the job, `checkpoint_seconds` is C and `restart_seconds` is R.
pub fn efficiency_under(
    gaps: &TimeDistribution,
    checkpoint_seconds: f64,
    restart_seconds: f64,
    interval_seconds: f64,
) -> f64 {
    let cycle = interval_seconds + checkpoint_seconds;
    let mut intervals_per_gap = 0.0;
    for k in 1..=TERMS {
        let survival = gaps.survival(restart_seconds + f64::from(k) * cycle);
        intervals_per_gap += survival;
        if survival < NEGLIGIBLE {
            return interval_seconds * intervals_per_gap / gaps.mean_seconds();
        }
    }
    let behind = restart_seconds + (f64::from(TERMS) + 0.5) * cycle;
    let tail = gaps.mean_seconds() - gaps.limited_mean_seconds(behind);
    interval_seconds * (intervals_per_gap + tail / cycle) / gaps.mean_seconds()
}

/// The interval, in seconds, with the best efficiency under `gaps`, found numerically around
/// Young's estimate; the value is the efficiency.
pub fn optimum_under(
    gaps: &TimeDistribution,
    checkpoint_seconds: f64,
    restart_seconds: f64,
) -> Optimum {
    let young = (2.0 * checkpoint_seconds * gaps.mean_seconds()).sqrt();
    maximise((young / REACH, young * REACH), |interval| {
        efficiency_under(gaps, checkpoint_seconds, restart_seconds, interval)
    })
}
