//! Files that move from host to host.

pub(crate) mod mover;
