//! How much work to do between two checkpoints: published formulas, the exact optimum, and numeric
//! optima where no formula holds.
//!
//! Conventions, the same in every formula here:
//! - the *interval* τ is the useful work between two checkpoints; the *cycle* is τ + C;
//! - C is the time that one checkpoint takes and blocks the application;
//! - R is the time from a failure until work goes on. Failures strike during work, checkpoint and
//!   restart alike; a failed restart begins anew;
//! - M is the mean time between failures of everything the job uses;
//! - the job is long: its last, partial interval does not count;
//! - *efficiency* is useful work over elapsed time.

mod attempt;
mod exponential;
mod lambert;
mod renewal;
mod rule;
mod search;

pub use attempt::{Attempt, Cost};
pub use exponential::Costs;
pub use renewal::{efficiency_under, optimum_under};
pub use rule::IntervalRule;
pub use search::{Optimum, maximise, maximise_simulated};
