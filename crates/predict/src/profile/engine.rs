//! What the engine that runs a workflow takes for each task, beside what the task does.

use super::Provenance;

/// The cost of a task in a workflow engine: to hand it over, to start it, and to learn of its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// Seconds of the engine itself, which does this for one task after the other.
    pub task_seconds: f64,
    /// Seconds that a slot of a host is taken beside that, while the task neither reads, computes nor writes; hosts do
    /// so side by side.
    pub start_seconds: f64,
}
