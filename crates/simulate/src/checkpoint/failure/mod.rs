//! When nodes fail, how many at once, how badly, and for how long.
//!
//! A [`FailureModel`] is the `[failures]` table of a scenario, which is also the form of a fit to
//! records; a [`FailureProcess`] draws the failures of one machine from it.

mod bursts;
mod calendar;
mod distribution;
mod model;
mod process;
mod reading;
mod replay;

pub use bursts::{Bursts, Spread};
pub use distribution::TimeDistribution;
pub use model::{FailureModel, FirstFailure, Fit, Scope, Shares};
pub use process::{Damage, Failure, FailureProcess};
pub use replay::{Recorded, Replay};
