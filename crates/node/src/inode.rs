//! Inodes that are open here or not settled yet.
//!
//! Owns the table of live inodes, the right to write of this host, and the marks of what may not be recorded. Asks the
//! namespace for records, and other hosts for leases. Promises that a record is never older than what a close
//! acknowledged, and that one host at a time writes.

pub(crate) mod doubts;
pub(crate) mod early_fold;
pub(crate) mod elsewhere;
pub(crate) mod following;
pub(crate) mod handed;
pub(crate) mod lease;
pub(crate) mod live;
pub(crate) mod moving;
pub(crate) mod naming;
pub(crate) mod passed;
pub(crate) mod publication;
pub(crate) mod reclaiming;
pub(crate) mod reconciling;
pub(crate) mod settling;
pub(crate) mod write_right;
