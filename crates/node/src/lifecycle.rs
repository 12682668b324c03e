//! How a node begins after a clean stop, a crash or a loss of power, and how it stops.

pub(crate) mod checking;
pub(crate) mod closing;
pub(crate) mod power_loss;
pub(crate) mod presence;
pub(crate) mod recovery;
pub(crate) mod threads;
