//! The one piece of the Lambert W function that checkpointing needs.

/// Below this the logarithm of the defining equation cancels; the series is exact to 1e-13 there.
const SERIES_BELOW: f64 = 1e-6;
const MOST_STEPS: usize = 64;

/// 1 + W₀(−e^(−1−u)) for u ≥ 0, with W₀ the principal branch of the Lambert W function.
///
/// That argument runs up to the branch point −1/e, where W itself loses half of its digits. So the
/// equation is solved for v = −ln(−W), which satisfies v − 1 + e^(−v) = u: convex and increasing,
/// and Newton's method from above never overshoots. The relative error is below 1e-12.
pub(super) fn one_plus_w0(u: f64) -> f64 {
    let q = (2.0 * u).sqrt();
    if u < SERIES_BELOW {
        // Corless et al., "On the Lambert W function", Adv. Comput. Math. 5 (1996), section 4,
        // in powers of q instead of p = sqrt(2(1 − e^(−u))).
        return q * (1.0 - q * (1.0 / 3.0 - q * (1.0 / 36.0 + q / 270.0)));
    }
    let mut v = u + q;
    for _ in 0..MOST_STEPS {
        let step = (v + (-v).exp_m1() - u) / -(-v).exp_m1();
        v -= step;
        if step.abs() <= 1e-15 * v {
            break;
        }
    }
    -(-v).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W₀ at points whose values are tabulated (Corless et al. 1996 give the method; digits from
    /// the defining equation, checked below).
    #[test]
    fn agrees_with_known_values_of_the_lambert_function() {
        for (x, w) in [
            (-0.1, -0.111_832_559_158_962_96),
            (-0.2, -0.259_171_101_819_073_76),
            (-0.3, -0.489_402_227_180_214_9),
        ] {
            let u = -1.0 - f64::ln(-x);
            let ours = one_plus_w0(u) - 1.0;
            assert!((ours - w).abs() < 2e-15 * 10.0, "W({x}) = {w}, got {ours}");
            assert!((w * f64::exp(w) - x).abs() < 1e-15);
        }
        assert!(one_plus_w0(0.0).abs() < 1e-300, "the branch point");
    }

    /// With s = 1 + W the defining equation reads −ln(1 − s) − s = u.
    #[test]
    fn satisfies_its_equation_over_seven_decades() {
        for exponent in -6..=1 {
            for mantissa in [1.0, 2.5] {
                let u = mantissa * 10f64.powi(exponent);
                let s = one_plus_w0(u);
                let back = if s < 0.5 { sum_of_powers(s) } else { -(-s).ln_1p() - s };
                let tolerance = if s < 0.999 { 1e-12 } else { 1e-3 };
                assert!((back / u - 1.0).abs() < tolerance, "u = {u}: {back}");
            }
        }
    }

    #[test]
    fn the_series_meets_the_iteration() {
        let below = one_plus_w0(SERIES_BELOW * (1.0 - 1e-9));
        let above = one_plus_w0(SERIES_BELOW);
        assert!((above / below - 1.0 - 0.5e-9).abs() < 1e-12, "{below} {above}");
    }

    /// −ln(1 − s) − s without cancellation.
    fn sum_of_powers(s: f64) -> f64 {
        (2..200).map(|n| s.powi(n) / f64::from(n)).sum()
    }
}
