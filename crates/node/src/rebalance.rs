//! Files that move from host to host.

pub(crate) mod emptying;
pub(crate) mod fetch;
pub(crate) mod mover;
