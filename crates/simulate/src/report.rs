//! What a run found: estimates with intervals, and the scenario they hold for.

use serde::{Serialize, Serializer};

use crate::progress::Progress;

/// The mean of a quantity over replications.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the confidence interval; none for a single replication.
    pub half_width: Option<f64>,
    /// The number of replications.
    pub n: u64,
    /// The unit, `1` for a share or a number of things.
    pub unit: &'static str,
}

/// A quantity that follows from the scenario without simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// The value.
    pub value: f64,
    /// The unit, `1` for a share or a number of things.
    pub unit: &'static str,
}

/// The result of a run. It is the same for the same scenario, whatever the machine or the number
/// of threads.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The simulator: `checkpoint` or `scale`.
    pub kind: &'static str,
    /// The version of this program.
    pub version: &'static str,
    /// The effective scenario, which can be run again.
    pub scenario: toml::Table,
    /// From which the random numbers followed.
    pub seed: u64,
    /// How often the run was repeated.
    pub replications: u64,
    /// What follows from the scenario without simulation, in order of interest.
    #[serde(serialize_with = "as_map")]
    pub derived: Vec<(String, Derived)>,
    /// What was estimated, in order of interest.
    #[serde(serialize_with = "as_map")]
    pub estimates: Vec<(String, Estimate)>,
    /// Events handled in all replications.
    #[serde(skip)]
    pub events: u64,
}

impl Report {
    /// The estimate of that name.
    #[must_use]
    pub fn estimate(&self, name: &str) -> Option<&Estimate> {
        self.estimates.iter().find(|(n, _)| n == name).map(|(_, estimate)| estimate)
    }
}

/// The version of this program, as reports name it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A scenario that was read and can be run.
pub trait Study: Sync {
    /// The effective scenario.
    fn scenario(&self) -> &toml::Table;

    /// Runs it on up to `threads` threads; `progress` is advanced on the way.
    fn run(&self, threads: usize, progress: &Progress) -> Report;

    /// The jobs that the first replication finishes, in the Standard Workload Format; none when
    /// there are no jobs.
    fn jobs(&self) -> Option<String> {
        None
    }
}

fn as_map<T: Serialize, S: Serializer>(
    pairs: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}
