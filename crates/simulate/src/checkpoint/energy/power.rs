//! The `[power]` table: what a node draws in each state.

use crate::checkpoint::level::expectation::Watts;
use crate::scenario::{Problem, Section};

/// Power of one node in each state, in watts, with its share of cooling and storage if it is meant
/// to be paid for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// While it computes, work that is lost later included.
    pub compute_watts: f64,
    /// While it writes or reads a checkpoint.
    pub checkpoint_watts: f64,
    /// While it boots or restarts.
    pub boot_watts: f64,
    /// While it waits for a job or a repair.
    pub idle_watts: f64,
}

impl Power {
    /// Reads `compute`, `checkpoint`, `boot` and `idle`. What is missing draws what computing does,
    /// an idle node what booting does.
    ///
    /// # Errors
    /// When `compute` is missing or one is refused.
    pub fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        let compute_watts = section.watts("compute").positive().required()?;
        let boot = section.watts("boot").not_negative().optional()?;
        Ok(Self {
            compute_watts,
            checkpoint_watts: section
                .watts("checkpoint")
                .not_negative()
                .optional()?
                .unwrap_or(compute_watts),
            boot_watts: boot.unwrap_or(compute_watts),
            idle_watts: section
                .watts("idle")
                .not_negative()
                .optional()?
                .unwrap_or_else(|| boot.unwrap_or(compute_watts)),
        })
    }

    /// The power of a job on `nodes` nodes, as the analytic expectations take it.
    pub fn of_job(&self, nodes: u32) -> Watts {
        let nodes = f64::from(nodes);
        Watts {
            work: nodes * self.compute_watts,
            write: nodes * self.checkpoint_watts,
            restore: nodes * self.boot_watts,
        }
    }
}
