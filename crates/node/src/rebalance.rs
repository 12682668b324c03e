//! Files that move from host to host, and from tier to tier.

pub(crate) mod emptying;
pub(crate) mod fetch;
pub(crate) mod mover;
pub(crate) mod tiers;
