//! How a node begins after a clean stop, a crash or a loss of power, and how it stops.
//!
//! Owns the node's threads, which are stopped one by one, and how far a stop has come.
//! Asks all rooms below.
//! Promises that nothing is served before what a crash left is in order, and that a stop ends within a bounded time.

pub(crate) mod checking;
pub(crate) mod closing;
pub(crate) mod power_loss;
pub(crate) mod presence;
pub(crate) mod recovery;
pub(crate) mod threads;
