//! Inodes that are open here or not settled yet.
//!
//! Owns the table of live inodes, the right to write of this host, and the marks of what may not be recorded. Asks the
//! namespace for records, and other hosts for leases. Promises that a record is never older than what a close
//! acknowledged, and that one host at a time writes.

pub(crate) mod backing_state;
pub(crate) mod bytes;
pub(crate) mod copied_files;
pub(crate) mod departed;
pub(crate) mod early_fold;
pub(crate) mod elsewhere;
pub(crate) mod entry;
pub(crate) mod followers;
pub(crate) mod following;
pub(crate) mod handed;
pub(crate) mod lease;
pub(crate) mod live;
pub(crate) mod mark;
pub(crate) mod moving;
pub(crate) mod names_left;
pub(crate) mod naming;
pub(crate) mod outdating;
pub(crate) mod paging;
pub(crate) mod passed;
pub(crate) mod publication;
pub(crate) mod publishing;
pub(crate) mod reclaiming;
pub(crate) mod reconciling;
pub(crate) mod removal;
pub(crate) mod settling;
pub(crate) mod summing;
pub(crate) mod unfolding;
pub(crate) mod write_right;
