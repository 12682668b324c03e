//! The room of this host's tiers, and what becomes of a new file when there is none.

pub(crate) mod elsewhere;
pub(crate) mod tiers;
