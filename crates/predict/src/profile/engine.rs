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
    /// Seconds for which the engine itself uses a processor for each task, if that was told apart.
    pub task_processor_seconds: Option<f64>,
    /// `start_seconds` of tasks beside which no other ran, if there were any.
    pub start_alone_seconds: Option<f64>,
    /// Whether tasks sleep for as long as they computed, as those of a replay do by default: they need no processor meanwhile.
    pub sleeps: bool,
}

impl Engine {
    /// `task_seconds` and `start_seconds` where nothing else wants the processors, as far as that was told apart.
    #[must_use]
    pub fn alone_seconds(&self) -> (f64, f64) {
        (
            self.task_processor_seconds.unwrap_or(self.task_seconds),
            self.start_alone_seconds.unwrap_or(self.start_seconds),
        )
    }
}
