//! Checkpointing and reliability: jobs, failures, checkpoints, and where the time goes.
//!
//! ```text
//! scenario ── machine      [machine]     nodes, memory, reboot, power
//!          ├─ failure      [failures]    lifetimes, repairs, bursts, damage
//!          ├─ storage      [[level]]     bandwidth or fixed cost, how often, what it survives
//!          ├─ interval     [checkpoint]  interval
//!          └─ workload     [workload]    jobs: synthetic, or a trace in the Standard Workload Format
//! setup (the scenario, read) ── plan, course (a job between failures)
//! world (jobs, nodes, events) ── ledger (node-seconds per category) ── study (replications, estimates)
//! ```

mod course;
pub mod energy;
pub mod failure;
pub mod interval;
mod ledger;
pub mod level;
mod machine;
mod nodes;
mod plan;
mod presets;
mod setup;
pub mod silent;
mod storage;
mod study;
mod workload;
mod world;

pub use ledger::{Category, Ledger};
pub use presets::PRESETS;
pub use workload::{Trace, TraceJob};

use crate::report::Study;
use crate::scenario::{Document, Files, Problem};

/// Reads a scenario.
///
/// # Errors
/// When it is refused.
pub fn read(document: &Document, files: &Files<'_>) -> Result<Box<dyn Study>, Problem> {
    Ok(Box::new(study::CheckpointStudy::read(document, files)?))
}
