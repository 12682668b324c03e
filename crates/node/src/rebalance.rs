//! Moving files that exist: away from a host, to fuller or emptier hosts, and between the tiers of this one.
//!
//! Owns requests to fetch a file that take long, and their threads.
//! Asks `inode` for the lease and the bytes, `space` for a tier, and `intarsia_policy` for which files move.
//! Promises that a file that somebody has open stays where it is, and that a move that was interrupted leaves the file
//! in the one place or the other.

pub(crate) mod emptying;
pub(crate) mod fetch;
pub(crate) mod mover;
pub(crate) mod tiers;
