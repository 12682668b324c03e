//! One thread for what closed files need, its queue, a bound on how fast bytes move, and turns for each file.
//!
//! Owns the thread, the queue and their clocks.
//! Asks nobody: it hands what is due to the [`finalizer::Chores`] that it was started with.
//! Promises that each task is done once, the most urgent first, and that a stop does not wait for tasks that are not
//! due.

pub(crate) mod finalizer;
pub(crate) mod queue;
pub(crate) mod throttle;
pub(crate) mod turns;
