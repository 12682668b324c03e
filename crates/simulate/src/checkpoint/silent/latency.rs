//! Errors that show only after a latency, and how many checkpoints to keep because of it.
//!
//! After G. Aupy, A. Benoit, T. Hérault, Y. Robert, F. Vivien, D. Zaidouni, "On the combination of
//! silent error detection and checkpointing", PRDC 2013: the newest checkpoint may hold the error
//! already, so the job goes back to the one before the error. To first order their best period is
//! Young's for the rate of the silent errors; the latency decides how many checkpoints are kept.

use crate::checkpoint::failure::TimeDistribution;

/// The probability that an error leaves no good checkpoint, when one is taken every
/// `period_seconds` and the newest `kept` are kept.
///
/// The error strikes x after the last checkpoint, x uniform in the period T, and shows after the
/// latency D. By then ⌊(x + D) / T⌋ newer checkpoints were taken; the last good one is gone when
/// they are `kept` or more, that is for D ≥ kT − x. Averaged over x, with S the survival function of
/// the latency: P = 1/T · ∫ S(y) dy from (k − 1) T to k T.
pub fn irrecoverable_share(latency: &TimeDistribution, period_seconds: f64, kept: u32) -> f64 {
    let until = |periods: f64| latency.limited_mean_seconds(periods * period_seconds);
    match kept {
        0 => 1.0,
        kept => (until(f64::from(kept)) - until(f64::from(kept) - 1.0)) / period_seconds,
    }
}

/// How many checkpoints to keep so that an error leaves no good one with a probability of at most
/// `accepted`; `None` when 65,536 are not enough.
pub fn kept_for(latency: &TimeDistribution, period_seconds: f64, accepted: f64) -> Option<u32> {
    let enough = |kept| irrecoverable_share(latency, period_seconds, kept) <= accepted;
    let mut high = 1;
    while !enough(high) {
        high = u32::checked_mul(high, 2).filter(|high| *high <= 1 << 16)?;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low.midpoint(high);
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use intarsia_des::Streams;
    use rand::RngExt;

    use super::*;

    /// For an exponential latency of mean μ: P = μ/T (e^(−(k−1)T/μ) − e^(−kT/μ)).
    #[test]
    fn an_exponential_latency_has_a_closed_form() {
        let (mu, period) = (500.0, 300.0);
        let latency = TimeDistribution::exponential(mu).unwrap();
        for kept in 1..6 {
            let k = f64::from(kept);
            let closed =
                mu / period * ((-(k - 1.0) * period / mu).exp() - (-k * period / mu).exp());
            let ours = irrecoverable_share(&latency, period, kept);
            assert!((ours - closed).abs() < 1e-12, "{kept}: {ours} {closed}");
        }
        assert_eq!(irrecoverable_share(&latency, period, 0), 1.0);
    }

    #[test]
    fn agrees_with_a_simulation_for_a_long_tailed_latency() {
        let latency = TimeDistribution::log_normal(6.0, 1.0).unwrap();
        let (period, kept, n) = (600.0, 2, 200_000);
        let mut rng = Streams::new(4).stream("latency", 0);
        let lost = (0..n)
            .filter(|_| {
                let x = rng.random::<f64>() * period;
                ((x + latency.sample(&mut rng)) / period).floor() >= f64::from(kept)
            })
            .count() as f64;
        let expected = irrecoverable_share(&latency, period, kept);
        let four_errors = 4.0 * (expected * (1.0 - expected) / f64::from(n)).sqrt();
        assert!((lost / f64::from(n) - expected).abs() < four_errors, "{lost} {expected}");
    }

    #[test]
    fn keeps_no_more_than_the_risk_asks_for() {
        let latency = TimeDistribution::exponential(1000.0).unwrap();
        for accepted in [0.5, 1e-2, 1e-6] {
            let kept = kept_for(&latency, 300.0, accepted).unwrap();
            assert!(irrecoverable_share(&latency, 300.0, kept) <= accepted);
            assert!(irrecoverable_share(&latency, 300.0, kept - 1) > accepted);
        }
        let endless = TimeDistribution::exponential(1e9).unwrap();
        assert_eq!(kept_for(&endless, 1.0, 1e-9), None);
    }
}
