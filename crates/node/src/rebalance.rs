//! Moving files that exist: away from a host, from full hosts to emptier ones, and between the tiers of this host.
//!
//! Owns the requests of other hosts to fetch a long file, and their threads.
//! Asks `inode` for the lease and the bytes, `space` for a tier, and `intarsia_policy` for which files move.
//! Promises that a file that a program has open stays where it is, and that an interrupted move leaves the file whole in
//! one of the two places.

pub(crate) mod emptying;
pub(crate) mod fetch;
pub(crate) mod mover;
pub(crate) mod tiers;
