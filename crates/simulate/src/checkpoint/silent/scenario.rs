//! The `[silent]` table of a scenario.

use crate::checkpoint::failure::TimeDistribution;
use crate::scenario::{Files, Problem, Section};

/// Silent errors and how they are found.
///
/// ```toml
/// node_mtbe = "200 years"                                # mean time between errors of a node, at work
/// verification = "10 s"                                  # before a checkpoint; finds every error
/// verifications = 2                                      # per checkpoint
/// # or: errors show by themselves, after a while
/// latency = { model = "exponential", mean = "20 min" }
/// kept = 3                                               # checkpoints that are kept
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SilentErrors {
    /// Mean time between silent errors of one node at work, in seconds.
    pub node_mtbe_seconds: f64,
    /// How they are found.
    pub detection: Detection,
}

/// How silent errors are found.
#[derive(Clone, Debug, PartialEq)]
pub enum Detection {
    /// By verifying the work before it is checkpointed.
    Verification {
        /// How long a verification takes.
        seconds: f64,
        /// How many there are per checkpoint, at equal distances.
        per_checkpoint: u64,
    },
    /// By their effect, after a time; the newest `kept` checkpoints are there to go back to.
    Latency {
        /// From the error until it shows.
        latency: TimeDistribution,
        /// How many checkpoints are kept.
        kept: u32,
    },
}

impl SilentErrors {
    /// Reads the table.
    ///
    /// # Errors
    /// When a field is missing or refused, or both ways of detection are given.
    pub fn read(section: &mut Section<'_>, files: &Files<'_>) -> Result<Self, Problem> {
        let node_mtbe_seconds = section.seconds("node_mtbe").positive().required()?;
        let detection = match (section.has("verification"), section.has("latency")) {
            (false, true) => Detection::Latency {
                latency: section
                    .section("latency", |table| TimeDistribution::read(table, files))?,
                kept: u32::try_from(section.integer("kept").at_least(1).at_most(65_536).or(1)?)
                    .unwrap_or(u32::MAX),
            },
            (_, false) => Detection::Verification {
                seconds: section.seconds("verification").not_negative().required()?,
                per_checkpoint: section.integer("verifications").at_least(1).or(1)?,
            },
            (true, true) => {
                return Err(section
                    .refuse("latency", "errors are found in one way only")
                    .with_help("leave out `verification` or `latency`"));
            }
        };
        Ok(Self { node_mtbe_seconds, detection })
    }

    /// Silent errors per second of a job on `nodes` nodes at work.
    pub fn per_second(&self, nodes: u32) -> f64 {
        f64::from(nodes) / self.node_mtbe_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    fn read(text: &str) -> Result<SilentErrors, Problem> {
        let no_files = |_: &str| Err("no files here".to_owned());
        let document = Document::parse("s.toml", text)?;
        document.read(|root| SilentErrors::read(root, &no_files)).map(|(errors, _)| errors)
    }

    #[test]
    fn reads_either_way_of_detection() {
        let verified =
            read("node_mtbe = '1 year'\nverification = '10 s'\nverifications = 2").unwrap();
        let expected = Detection::Verification { seconds: 10.0, per_checkpoint: 2 };
        assert_eq!(verified.detection, expected);
        assert!((verified.per_second(365) - 1.0 / 86_400.0).abs() < 1e-12);
        let late =
            "node_mtbe = '1 year'\nkept = 3\nlatency = { model = 'exponential', mean = '1 h' }";
        assert!(matches!(read(late).unwrap().detection, Detection::Latency { kept: 3, .. }));
    }

    #[test]
    fn refuses_both_and_neither() {
        let both = "node_mtbe = '1 y'\nverification = '1 s'\nlatency = { model = 'exponential', mean = '1 h' }";
        assert!(read(both).unwrap_err().message.contains("latency: errors are found in one way"));
        assert!(read("node_mtbe = '1 y'").unwrap_err().message.contains("verification: missing"));
        assert!(read("verification = '1 s'").unwrap_err().message.contains("node_mtbe: missing"));
    }
}
