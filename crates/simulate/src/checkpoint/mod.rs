//! Checkpointing and reliability: jobs, failures, checkpoints, and where the time goes.
//!
//! ```text
//! scenario ── machine      [machine]     nodes, memory, reboot
//!          ├─ failure      [failures]    lifetimes, repairs, bursts, damage
//!          ├─ silent       [silent]      errors that only a verification finds
//!          ├─ level        [storage]     what a store delivers
//!          ├─ storage      [[level]]     what a checkpoint costs, how often, what it survives
//!          ├─ interval     [checkpoint]  how much work between two
//!          ├─ workload     [workload]    jobs: synthetic, or a trace in the Standard Workload Format
//!          ├─ energy       [power], [prices]
//!          └─ machines     [[source]]    where the figures come from
//! setup (the scenario, read) ── analysis, advice (formulas) ── plan, scheme, course, steps (a job between failures)
//! world (events) ── job, nodes, scheduler, shared_storage ── ledger (node-time per category) ── study, measures (replications, estimates)
//! ```

mod advice;
mod analysis;
mod course;
pub mod energy;
mod errors;
pub mod failure;
pub mod interval;
mod job;
mod ledger;
pub mod level;
mod machine;
pub mod machines;
mod measures;
mod nodes;
mod plan;
mod presets;
mod scheduler;
mod scheme;
mod setup;
mod shared_storage;
pub mod silent;
mod steps;
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
