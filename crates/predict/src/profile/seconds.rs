//! A service time: always the same, or one of those that were measured.

use std::sync::Arc;

/// How long a service takes, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Seconds {
    /// Always the same.
    Constant(f64),
    /// Each of these is as likely as the others; never empty.
    Samples(Arc<[f64]>),
}

impl Seconds {
    /// No time at all.
    pub const ZERO: Self = Self::Constant(0.0);

    /// The time that `draw`, a random number, chooses. The same number chooses the same sample whatever else is drawn, so
    /// that configurations are compared under the same luck.
    #[must_use]
    pub fn draw(&self, draw: u64) -> f64 {
        match self {
            Self::Constant(seconds) => *seconds,
            Self::Samples(samples) => {
                samples.get(one_of(samples.len(), draw)).copied().unwrap_or(0.0)
            }
        }
    }

    /// The mean.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(seconds) => *seconds,
            Self::Samples(samples) => samples.iter().sum::<f64>() / samples.len() as f64,
        }
    }

    /// The same with each of its times changed.
    #[must_use]
    pub(super) fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::Constant(seconds) => Self::Constant(change(*seconds)),
            Self::Samples(samples) => {
                Self::Samples(samples.iter().map(|one| change(*one)).collect())
            }
        }
    }

    /// Whether two draws can differ.
    #[must_use]
    pub fn is_random(&self) -> bool {
        match self {
            Self::Constant(_) => false,
            Self::Samples(samples) => samples.iter().any(|sample| *sample != samples[0]),
        }
    }
}

/// Which of so many things `draw`, a random number, chooses, each as likely as the others; 0 of none.
pub(crate) fn one_of(count: usize, draw: u64) -> usize {
    let place = (u128::from(draw) * count as u128) >> 64;
    usize::try_from(place).unwrap_or(0)
}

/// A random number that follows from a seed and what it is for, and from nothing else.
#[must_use]
pub(crate) const fn mixed(seed: u64, what: u64, index: u64) -> u64 {
    // The finalizer of SplitMix64, three times: each input changes every bit of the result.
    const fn finalize(mut x: u64) -> u64 {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let seeded = finalize(seed.wrapping_add(STEP));
    let named = finalize(seeded ^ what.wrapping_mul(STEP));
    finalize(named ^ index.wrapping_mul(STEP).wrapping_add(STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_drawn_alike() {
        let samples = Seconds::Samples([1.0, 2.0, 4.0].into());
        assert!((samples.mean() - 7.0 / 3.0).abs() < 1e-12);
        let mut seen = [0_u32; 5];
        for index in 0..30_000 {
            match samples.draw(mixed(1, 2, index)) {
                1.0 => seen[1] += 1,
                2.0 => seen[2] += 1,
                _ => seen[4] += 1,
            }
        }
        assert!(seen.iter().filter(|n| (9_500..10_500).contains(*n)).count() == 3, "{seen:?}");
        assert_eq!(samples.draw(0), 1.0);
        assert_eq!(samples.draw(u64::MAX), 4.0);
    }
}
