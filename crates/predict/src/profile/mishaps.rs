//! How often what goes wrong.

/// Hosts fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures {
    /// Mean of the time that a host is up.
    pub mean_seconds: f64,
    /// Of the Weibull distribution of that time; 1: failures are independent of age, below: early ones are frequent.
    pub shape: f64,
    /// How long a host is down.
    pub repair_seconds: f64,
    /// Another host takes its place: what was on its disks is lost, and not only what was in memory.
    pub loses_disks: bool,
}

/// Some runs of tasks compute slowly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stragglers {
    /// The part of all runs.
    pub share: f64,
    /// How many times as long their computations take.
    pub slowdown: f64,
}
