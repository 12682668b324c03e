//! What a run showed: means with confidence intervals, averages over time, quantiles.

mod batches;
mod histogram;
mod tally;
mod time_average;

pub use batches::BatchMeans;
pub use histogram::Histogram;
pub use tally::{Interval, Tally, student};
pub use time_average::TimeAverage;
