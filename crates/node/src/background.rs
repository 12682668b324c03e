//! One thread for what closed files need, its queue, a bound on how fast bytes move, and turns for each file.
//!
//! Owns the thread, the queue and their clocks. Asks nobody: what is to be done it hands to the [`settler::Chores`] that it
//! was started with. Promises that each thing is done once, the most urgent first, and that stopping waits for no rest.

pub(crate) mod queue;
pub(crate) mod settler;
pub(crate) mod throttle;
pub(crate) mod turns;
