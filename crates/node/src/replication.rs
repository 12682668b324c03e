//! Copies of files on several hosts.
//!
//! Owns copies on their way here and the work of making those that lack. Asks `body` for content, `membership` for hosts,
//! and the policy for which. Promises that a copy is compared with its sum where it arrives, and that it becomes the
//! file's or is removed.

pub(crate) mod arrivals;
pub(crate) mod copies;
pub(crate) mod further;
pub(crate) mod push;
pub(crate) mod repair;
pub(crate) mod replicate;
pub(crate) mod replicator;
