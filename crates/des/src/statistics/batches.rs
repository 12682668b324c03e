//! Confidence intervals from one long run.

use crate::statistics::tally::{Interval, Tally};

/// Fewest batches once there are that many observations; there are at most twice as many.
const BATCHES: usize = 32;

/// Means of batches of successive observations of one run.
///
/// Successive observations depend on each other, means of long batches hardly. The batches grow with
/// the run: whenever there are 64, neighbours are joined (A. M. Law and J. S. Carson, "A sequential
/// procedure for determining the length of a steady-state simulation", Oper. Res. 27(5), 1979), so
/// that their number stays between 32 and 64. Leave the warm-up out by not recording it.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchMeans {
    means: Vec<f64>,
    batch_size: u64,
    /// The batch that is not full yet.
    current: Tally,
    all: Tally,
}

impl Default for BatchMeans {
    fn default() -> Self {
        Self {
            means: Vec::with_capacity(2 * BATCHES),
            batch_size: 1,
            current: Tally::new(),
            all: Tally::new(),
        }
    }
}

impl BatchMeans {
    /// No observation yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next observation of the run.
    pub fn record(&mut self, value: f64) {
        self.all.record(value);
        self.current.record(value);
        if self.current.count() < self.batch_size {
            return;
        }
        self.means.push(self.current.mean());
        self.current = Tally::new();
        if self.means.len() == 2 * BATCHES {
            self.means = self.means.chunks(2).map(|pair| pair.iter().sum::<f64>() / 2.0).collect();
            self.means.reserve(BATCHES);
            self.batch_size *= 2;
        }
    }

    /// All observations; its variance is theirs, its intervals would be too narrow.
    pub fn observations(&self) -> &Tally {
        &self.all
    }

    /// How many observations each batch has.
    pub fn batch_size(&self) -> u64 {
        self.batch_size
    }

    /// The mean of all observations, and the half width that holds the true one with probability
    /// `confidence`, by Student's t over the full batches.
    pub fn interval(&self, confidence: f64) -> Interval {
        let batches: Tally = self.means.iter().copied().collect();
        Interval { mean: self.all.mean(), half_width: batches.half_width(confidence) }
    }
}
