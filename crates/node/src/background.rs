//! The finalizer's thread and its queue, a bound on how fast background work moves bytes, and turns to work on a file.
//!
//! Owns the thread, the queue, and when each task is due.
//! Asks nobody: it hands what is due to the [`finalizer::Chores`] that it was started with.
//! Promises that each task is done once, the most urgent first, and that a stop does not wait for tasks that are not
//! due.

pub(crate) mod finalizer;
pub(crate) mod queue;
pub(crate) mod throttle;
pub(crate) mod turns;
