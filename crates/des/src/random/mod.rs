//! Chance: named streams of random numbers and the distributions drawn from them.

mod distribution;
mod streams;

pub use distribution::Distribution;
pub use streams::Streams;
