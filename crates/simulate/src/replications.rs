//! Independent repetitions of a run, on as many threads as wanted, with the same results.

use crate::scenario::{Problem, Section};

pub use intarsia_des::replicate;

/// The section `[run]` that all simulators share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSettings {
    /// From which all random numbers follow.
    pub seed: u64,
    /// How often the run is repeated with other random numbers.
    pub replications: u64,
    /// The probability with which an interval covers the true mean.
    pub confidence: f64,
}

impl RunSettings {
    /// Reads `seed`, `replications` and `confidence`.
    ///
    /// # Errors
    /// When one of them is refused.
    pub fn read(run: &mut Section<'_>, replications: i64) -> Result<Self, Problem> {
        Ok(Self {
            seed: run.integer("seed").or(1)?,
            replications: run.integer("replications").at_least(1).or(replications)?,
            confidence: run
                .number("confidence")
                .must("lie between 0 and 1, both excluded", |c| *c > 0.0 && *c < 1.0)
                .or(0.95)?,
        })
    }
}
