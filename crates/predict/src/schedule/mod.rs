//! Who runs a task that is ready, as `intarsia run --schedule local` decides it.
//!
//! ```text
//! queue      tasks that wait, slots that are free: which task begins next, and where
//! nearest    the task of which a free host has the largest share
//! affinity   where what later tasks read together is made
//! waiting    a task that waits: where its input lies, and what a host costs it
//! ```
//!
//! The decisions are those of `intarsia.schedule` and `intarsia.run.affinity` of the Python package; both are held to the
//! same recorded decisions (`tests/data/schedule.json`). Hosts and tasks are numbers here, times seconds of any clock that
//! only goes forward.

mod affinity;
mod nearest;
mod queue;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use affinity::Affinity;
pub(crate) use queue::TaskQueue;
pub(crate) use waiting::{ByHost, Waiting};
