//! Work on files that are closed: settling, giving space back, checking; its pace, and its turns.

pub(crate) mod maintenance;
pub(crate) mod queue;
pub(crate) mod settler;
pub(crate) mod throttle;
pub(crate) mod turns;
