//! How a node begins after a clean stop, a crash or a loss of power, and how it stops.

pub(crate) mod closing;
pub(crate) mod power_loss;
pub(crate) mod recovery;
