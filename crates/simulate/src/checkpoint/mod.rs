//! Checkpointing and reliability: jobs, failures, checkpoints, and where the time goes.
//!
//! ```text
//! scenario ── machine      [machine]     nodes, memory, reboot, power
//!          ├─ failure      [failures]    lifetimes, repairs, bursts, damage
//!          ├─ storage      [[level]]     bandwidth or fixed cost, how often, what it survives
//!          ├─ interval     [checkpoint]  interval
//!          └─ workload     [workload]    jobs: synthetic, or a trace in the Standard Workload Format
//! world (jobs, nodes, events) ── ledger (node-seconds per category) ── study (replications, estimates)
//! ```

pub mod energy;
pub mod failure;
pub mod interval;
pub mod level;
pub mod silent;

use crate::report::Study;
use crate::scenario::{Document, Files, Preset, Problem};

/// The scenarios that come with the program.
pub const PRESETS: &[Preset] = &[];

/// Reads a scenario.
///
/// # Errors
/// Always: there is no model yet.
pub fn read(_document: &Document, _files: &Files<'_>) -> Result<Box<dyn Study>, Problem> {
    Err(Problem::new("the checkpoint model is not part of this version"))
}
