//! Where a function of the interval is largest, when no formula says so.

use serde::Serialize;

const GRID_POINTS: u32 = 96;
/// A replication may take seconds.
const SIMULATED_GRID_POINTS: u32 = 24;
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// A maximum is flat: a relative step of 1e-8 in the argument changes the value by 1e-16.
const RELATIVE_WIDTH: f64 = 1e-8;
/// Simulated values are noisy, so a fine search would only follow the noise.
const SIMULATED_WIDTH: f64 = 1e-2;

/// A maximum that a search found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Optimum {
    /// The argument, in its own unit; seconds where it is an interval.
    pub at: f64,
    /// The value there.
    pub value: f64,
}

/// The maximum of `f` over `bounds` (both above zero): a logarithmic grid of 96 points finds the
/// right hill, a golden-section search (Kiefer, Proc. AMS 4, 1953) its top. So `f` may have several
/// hills or steps, as an empirical distribution gives it, if each is wider than a step of the grid.
pub fn maximise(bounds: (f64, f64), f: impl FnMut(f64) -> f64) -> Optimum {
    search(bounds, GRID_POINTS, RELATIVE_WIDTH, f)
}

/// As [`maximise`], for the mean of simulations: a coarser grid of 24 points, and the argument to one
/// part in a hundred. `f` must use the same random numbers at each argument (common random numbers):
/// they cancel most of the noise in the comparison (Law, *Simulation Modeling and Analysis*, section
/// 11.2).
pub fn maximise_simulated(bounds: (f64, f64), f: impl FnMut(f64) -> f64) -> Optimum {
    search(bounds, SIMULATED_GRID_POINTS, SIMULATED_WIDTH, f)
}

fn search(
    bounds: (f64, f64),
    points: u32,
    relative_width: f64,
    mut f: impl FnMut(f64) -> f64,
) -> Optimum {
    let (low, high) = (bounds.0.ln(), bounds.1.ln());
    let step = (high - low) / f64::from(points);
    let mut best = Optimum { at: bounds.0, value: f64::NEG_INFINITY };
    let mut try_at = |logarithm: f64| {
        let candidate = Optimum { at: logarithm.exp(), value: f(logarithm.exp()) };
        if candidate.value > best.value {
            best = candidate;
        }
        candidate.value
    };
    let mut top = (low, f64::NEG_INFINITY);
    for point in 0..=points {
        let logarithm = low + step * f64::from(point);
        let value = try_at(logarithm);
        if value > top.1 {
            top = (logarithm, value);
        }
    }
    let (mut left, mut right) = ((top.0 - step).max(low), (top.0 + step).min(high));
    let (mut a, mut b) = (right - GOLDEN * (right - left), left + GOLDEN * (right - left));
    let (mut at_a, mut at_b) = (try_at(a), try_at(b));
    while right - left > relative_width {
        if at_a >= at_b {
            (right, b, at_b) = (b, a, at_a);
            a = right - GOLDEN * (right - left);
            at_a = try_at(a);
        } else {
            (left, a, at_a) = (a, b, at_b);
            b = left + GOLDEN * (right - left);
            at_b = try_at(b);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_top_of_the_highest_hill() {
        let two_hills = |x: f64| {
            let at = |top: f64, height: f64| height * (-(x / top).ln().powi(2) * 8.0).exp();
            at(3.0, 1.0) + at(700.0, 1.2)
        };
        let found = maximise((0.1, 1e4), two_hills);
        assert!((found.at - 700.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn finds_a_maximum_at_either_end() {
        assert!((maximise((1.0, 9.0), |x| x).at - 9.0).abs() < 1e-9);
        assert!((maximise((1.0, 9.0), |x| -x).at - 1.0).abs() < 1e-9);
    }

    /// The noise differs between seeds far more than the values between arguments.
    #[test]
    fn common_random_numbers_make_a_noisy_comparison_fair() {
        let noise = |seed: u64| (seed * 7919 % 101) as f64;
        let one = |x: f64, seed| noise(seed) - (x / 20.0).ln().powi(2);
        let found = maximise_simulated((1.0, 100.0), |x| {
            [3, 5, 11].iter().map(|seed| one(x, *seed)).sum::<f64>() / 3.0
        });
        assert!((found.at / 20.0 - 1.0).abs() < 0.02, "{found:?}");
    }
}
